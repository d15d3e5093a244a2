"""Tables of strangers: which line is the header, which columns are what, labels and joins."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import levywalk as lw
from levywalk.errors import DataWarning, InvalidData, InvalidParameter, TooLarge
from levywalk.problem.columns import is_header


@pytest.fixture
def write(tmp_path):
    def write(content: str, name: str = "data.csv"):
        (tmp_path / name).write_text(content)
        return tmp_path / name

    return write


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("a,b,c", "1,2,3", True),
        ("0,1,2", "5,6,7", True),
        ("0,1,2,3", "0.5,1,2,3", True),
        ("1,2,3,4,5", "9,9,9,9,9", True),
        ("0,1,2,target", "5,6,7,8", True),
        (",0,1,2,y", "0,5,6,7,8", True),
        ("who,0,1,2", "ann,5,6,7", True),
        ("id,,y", "1,2,3", True),
        ("1,2,3", "4,5,6", False),
        ("1,2", "3,4", False),
        ("2,1,0", "3,4,5", False),
        ("0.0,1.0,2.0", "3,4,5", False),
        ("1,,3", "4,5,6", False),
        ("1,NaN,3", "4,5,6", False),
        ("ann,0.5,1", "bob,0.7,0", False),
        ("0,1", "3,4", None),
        ("1,x,2", "3,4,5", None),
        ("1,2,x,4,5", "1,2,3,4,5", None),
        ("x,7.5", "1,2", None),
        ("ann,1,2,3", "bob,4,5,6", None),
        ("ann,yes", "bob,no", None),
    ],
)
def test_the_rule_of_headers(first, second, told):
    assert is_header(first.split(","), second.split(",")) is told


def test_a_header_of_numbers_is_not_a_sample(write):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 4))
    pd.DataFrame(values).to_csv(file := write(""), index=False)
    with pytest.warns(DataWarning, match="line 1 counts the columns and was taken as the header"):
        features, targets = lw.load_dataset(file)
    np.testing.assert_array_equal(features, values[:, :3])
    np.testing.assert_array_equal(targets, values[:, 3])
    assert lw.load_dataset(file, header=False)[0].shape == (7, 3)
    assert lw.load_dataset(file, header=True)[0].shape == (6, 3)


def test_an_undecided_first_line_is_refused_until_told(write):
    file = write("0,1\n2,3\n")
    with pytest.raises(InvalidData, match=r"line 1: .*say which with header=True or header=False"):
        lw.read_data(file)
    assert lw.read_data(file, header=True).n_samples == 1
    assert lw.read_data(file, header=False).n_samples == 2
    with pytest.raises(InvalidParameter, match="header must be True, False or None"):
        lw.read_data(file, header="yes")


def test_the_description_says_what_was_taken(write):
    data = lw.read_data(write("who,a,b,y\nann,1,2,3\nbob,4,5,6\n"), node="who")
    assert data.description == (
        "data.csv: 2 samples; line 1 is the header; target 'y'; node 'who'; 2 features: 'a', 'b'"
    )
    assert data.header == ("who", "a", "b", "y")
    assert data.node.tolist() == ["ann", "bob"]
    assert "no header; target column 2" in lw.read_data(write("1,2,3\n4,5,6\n")).description
    svm = lw.read_data(write("1 2:1\n", "a.svm"), intercept=True)
    assert svm.description == "a.svm: 1 sample; the label is the target; 3 features"


def test_the_index_column_of_pandas_is_left_out(write):
    frame = pd.DataFrame({"a": [5.0, 6.0, 9.0], "y": [7.0, 8.0, 9.0]})
    frame.to_csv(file := write(""))
    with pytest.warns(DataWarning, match="1 column without a name left out"):
        data = lw.read_data(file)
    assert data.features.tolist() == [[5.0], [6.0], [9.0]]
    assert lw.read_data(file, features=[0, "a"]).features.shape == (3, 2)


def test_columns_by_name_position_and_range(write):
    file = write("n,a,b,c,y\n0,1,2,3,4\n1,5,6,7,8\n")
    data = lw.read_data(file, target="a", node="n", features="b,3-4")
    assert data.feature_names == ("b", "c", "y")
    assert data.targets.tolist() == [1, 5]
    assert lw.read_data(file, node=-1).target_name == "c"
    for options, said in [
        ({"target": "z"}, "'z' is not in the header 'n', 'a', 'b', 'c', 'y'; choose target"),
        ({"target": "9"}, r"target must be an integer in \[-5, 4\], got 9"),
        ({"node": "a", "target": "a"}, "target and node must differ"),
        ({"features": "a,a"}, "features must differ"),
        ({"features": "a,y"}, "features must not contain the target"),
        ({"features": "3-9"}, "must be a range within 0-4"),
        ({"target": 1, "features": []}, "no column is left for the features"),
    ]:
        with pytest.raises((InvalidData, InvalidParameter), match=said):
            lw.read_data(file, **options)


def test_labels_become_zero_and_one(write):
    file = write("x,y\n1,1\n2,2\n3,1\n")
    assert lw.read_data(file, labels=(1, 2)).targets.tolist() == [0, 1, 0]
    assert lw.read_data(file, labels="2,1").targets.tolist() == [1, 0, 1]
    words = write("x,y\n1,no\n2,yes\n3,maybe\n")
    assert lw.read_data(words, labels="maybe,no,yes").targets.tolist() == [1, 2, 0]
    assert lw.read_data(words, labels=["yes"]).targets.tolist() == [0, 1, 0]
    for options, said in [
        ({}, "holds text \\('no', 'yes', 'maybe'\\), not numbers; .*'maybe', 'no', 'yes'"),
        ({"labels": "no,yes"}, r"also has the labels 'maybe'; .* labels=\['yes'\]"),
        ({"labels": "no,si"}, "no sample has the label 'si'; the target 'y' has 'maybe'"),
        ({"labels": "a,b,a"}, "different labels"),
        ({"labels": "a,b,c"}, "no sample has the label 'a', 'b', 'c'"),
    ]:
        with pytest.raises((InvalidData, InvalidParameter), match=said):
            lw.read_data(words, **options)


def test_missing_values_are_refused_or_dropped_with_a_count(write):
    file = write("a,b,y\n1,2,3\n4,,6\n7,NA,9\n10,11,12\n")
    with pytest.raises(InvalidData, match=r"line 3: column 'b' holds '', .* missing='drop' leaves"):
        lw.read_data(file)
    with pytest.warns(DataWarning, match="2 samples; 2 with missing values left out"):
        assert lw.read_data(file, missing="drop").targets.tolist() == [3, 12]
    assert lw.read_data(file, features="a").n_samples == 4  # a column that is not used may be empty


def test_semicolons_with_decimal_commas(write):
    data = lw.read_data(write("a;b;y\n1,5;2;3\n-4,25;5;6\n"))
    assert data.features.tolist() == [[1.5, 2.0], [-4.25, 5.0]]


def test_intercept_and_standardised_features(write):
    data = lw.read_data(write("a,b,y\n1,7,3\n2,7,6\n6,7,6\n"), intercept=True, standardise=True)
    assert data.feature_names == ("a", "b", "intercept")
    np.testing.assert_allclose(data.features[:, 0].mean(), 0, atol=1e-15)
    np.testing.assert_allclose(data.features[:, 0].std(), 1)
    np.testing.assert_array_equal(data.features[:, 1:], [[7, 1]] * 3)


def test_libsvm_indices_from_zero_and_chosen_features(write):
    file = write("1 0:5 2:7\n-1 1:3\n", "a.svm")
    with pytest.raises(InvalidData, match=r"index 0; .*: index_base=0"):
        lw.read_data(file)
    data = lw.read_data(file, index_base=0)
    assert data.features.tolist() == [[5, 0, 7], [0, 3, 0]]
    assert lw.read_data(file, index_base=0, features="2,0").features.tolist() == [[7, 5], [0, 0]]
    huge = write(f"1 1:5 {10**12}:7\n-1 3:3\n", "b.svm")
    with pytest.raises(TooLarge, match="features with features="):
        lw.read_data(huge)
    assert lw.read_data(huge, features="1-3").features.tolist() == [[5, 0, 0], [0, 0, 3]]
    with pytest.raises(InvalidData, match="feature 9 is not in the file"):
        lw.read_data(file, index_base=0, features="9")
    with pytest.raises(InvalidParameter, match="a LIBSVM file has no column of nodes"):
        lw.read_data(file, node="x")
    with pytest.raises(InvalidData, match="for CSV: format='csv'"):
        lw.read_data(write("1,2\n3,4\n", "c.txt"))


def test_npz_with_nodes_names_and_chosen_features(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, X=np.arange(6.0).reshape(2, 3), y=["no", "yes"], who=["a", "b"])
    data = lw.read_data(file, node="who", labels="no,yes", features="0,2")
    assert (data.node.tolist(), data.targets.tolist()) == (["a", "b"], [0, 1])
    assert data.features.tolist() == [[0, 2], [3, 5]]
    with pytest.raises(InvalidData, match="no array 'z'; it has 'X', 'y', 'who'"):
        lw.read_data(file, node="z")


FRAME = pd.DataFrame(
    {"who": ["c", "a", "b"], "x": [1, 2, 3], "z": [0.5, 1.5, 2.5], "y": [True, False, True]}
)


class OnlyProtocol:
    """A frame that offers nothing but the interchange protocol."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return FRAME.drop(columns="who").__dataframe__(nan_as_null, allow_copy)


def test_a_data_frame_is_read_directly():
    data = lw.read_data(FRAME, node="who")
    assert data.features.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]
    assert data.targets.tolist() == [1, 0, 1]
    assert data.node.tolist() == ["c", "a", "b"]
    assert lw.read_data(OnlyProtocol()).features.tolist() == data.features.tolist()
    with pytest.raises(InvalidData, match="column 'who' of the data frame holds 'c', not numbers"):
        lw.read_data(FRAME)
    gap = FRAME.assign(z=[0.5, None, 2.5])
    with pytest.raises(InvalidData, match="no value in column 'z', row 1"):
        lw.read_data(gap, node="who")
    with pytest.warns(DataWarning, match="1 with missing values left out"):
        assert lw.read_data(gap, node="who", missing="drop").n_samples == 2


def test_a_frame_of_polars_is_read_directly():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(FRAME.to_dict(orient="list"))
    data, expected = lw.read_data(frame, node="who"), lw.read_data(FRAME, node="who")
    np.testing.assert_array_equal(data.features, expected.features)
    assert data.node.tolist() == expected.node.tolist()


def test_the_join_refuses_strangers_and_holes_with_their_names(write):
    network = lw.as_network(nx.path_graph(["a", "b", "c"]))
    data = lw.read_data(FRAME, node="who")
    assert data.nodes_of(network).tolist() == [2, 0, 1]
    four = lw.as_network(nx.path_graph(["a", "b", "c", "d"]))
    with pytest.raises(InvalidData, match=r"1 node of the network has no sample: 'd'; .*partition"):
        data.nodes_of(four)
    with pytest.raises(InvalidData, match="1 node of the column 'who' is not in the network: 'c'"):
        data.nodes_of(lw.as_network(nx.path_graph(["a", "b"])))
    counted = lw.read_data(write("n,x,y\n1,1,1\n2.0,1,2\n3,1,3\n"), node="n")
    with pytest.raises(InvalidData, match="count from 1 and those of the network from 0"):
        counted.nodes_of(lw.path(3))
    assert counted.nodes_of(lw.read_network(write("1 2\n2 3\n", "net.txt"))).tolist() == [0, 1, 2]
    with pytest.raises(InvalidData, match="the data has no node column; read it with node="):
        lw.read_data(FRAME, features="x,z").nodes_of(network)
