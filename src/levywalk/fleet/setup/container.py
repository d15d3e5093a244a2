"""The container of a node: its ports, its user, its folders, and the image that it is made from."""

from __future__ import annotations

PORT, METRICS = 7400, 7401  # port in a container, which has its own network
USER = 10001  # in a container
CONFIG, STATE = "/etc/levywalk", "/var/lib/levywalk"  # in a container

DOCKERFILE = f"""\
# The image of a node. Put levywalk's wheel beside this file first.
FROM python:3.12-slim
COPY levywalk-*.whl /tmp/
RUN wheel=$(ls /tmp/levywalk-*.whl) \\
 && pip install --no-cache-dir "$wheel[fleet]" \\
 && rm "$wheel" \\
 && useradd --system --uid {USER} --user-group --no-create-home levywalk \\
 && install -d -o levywalk -g levywalk -m 700 {STATE}
ENV MALLOC_ARENA_MAX=1 OPENBLAS_NUM_THREADS=1
USER {USER}:{USER}
"""

# Keys and data are beside the Dockerfile, and must not be copied into an image.
DOCKERIGNORE = """\
*
!levywalk-*.whl
"""
