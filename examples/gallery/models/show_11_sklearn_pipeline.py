"""
In a pipeline of scikit-learn
=============================

``WalkClassifier`` is an estimator like any other: it stands in pipelines and in searches over
parameters, and trains by a model that walks.
"""

# needs: sklearn

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from levywalk.sklearn import WalkClassifier

features, labels = load_breast_cancer(return_X_y=True)

# %%
# How many updates until a model that walks is as good as one that sees all data at once?

steps = (10, 100, 1_000, 5_000)
walked = []
for count in steps:
    pipeline = make_pipeline(
        StandardScaler(), WalkClassifier(nodes=50, steps=count, alpha=1e-2, random_state=0)
    )
    walked.append(cross_val_score(pipeline, features, labels, cv=4))
central = cross_val_score(
    make_pipeline(StandardScaler(), LogisticRegression()), features, labels, cv=4
)

figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
means = [scores.mean() for scores in walked]
axes.semilogx(steps, means, "o-", color="#009E73", label="WalkClassifier, 50 nodes")
axes.axhline(central.mean(), color="#888888", linestyle="--", label="LogisticRegression, all data")
axes.set_xlabel("steps (updates)")
axes.set_ylabel("accuracy in cross-validation")
axes.legend(frameon=False)
axes.grid(alpha=0.3)
