"""Wrong inputs of every kind: each works, or is refused with a remedy that then works.

A case has files, what is typed, what the error says (None: it works at once), and the options that
the error asks for, or the files where these must be mended.
"""

from __future__ import annotations

import gzip
import warnings
from typing import Any, NamedTuple

import pytest

import levywalk as lw
from levywalk.experiments.shorthand import read_network_text, read_problem_text
from levywalk.remedy import command_line

PATH = "0 1\n1 2\n"
TABLE = "a,b,y\n1,2,3\n4,5,6\n7,8,9\n1,0,2\n"


class Case(NamedTuple):
    """One wrong input."""

    net: str = PATH
    data: str | bytes = TABLE
    file: str = "data.csv"
    network: dict[str, Any] = {}
    options: dict[str, Any] = {}
    error: str | None = None
    more_network: dict[str, Any] = {}
    more: dict[str, Any] = {}
    samples: int = 4
    net_file: str = "net.txt"
    mended: dict[str, str] = {}


CASES = {
    "wrong column": Case(
        options={"target": "price"}, error="not in the header 'a', 'b', 'y'", more={"target": "y"}
    ),
    "a column of words": Case(
        data="a,colour,y\n1,red,3\n4,blue,6\n7,red,1\n",
        error="column 'colour' holds 'red', not a finite number; choose columns of numbers with "
        "--features",
        more={"features": "a"},
        samples=3,
    ),
    "missing values": Case(
        data=TABLE + "1,,2\n", error="--missing drop leaves out", more={"missing": "drop"}
    ),
    "a node without data": Case(
        data="n,a,y\n0,1,2\n1,3,4\n1,5,7\n",
        options={"node": "n"},
        error="1 node of the network has no sample: '2'; .*leave --node out",
        more={"node": None},
        samples=3,
    ),
    "a node that the network lacks": Case(
        data="n,a,y\n0,1,2\n1,3,4\n2,5,6\n7,1,1\n",
        options={"node": "n"},
        error="1 node of the column 'n' is not in the network: '7'",
        more={"node": None},
    ),
    "labels 1 and 2": Case(
        data="a,y\n1,1\n2,2\n3,1\n4,2\n",
        options={"loss": "logistic", "ridge": 0.1},
        error="for example --labels 1,2",
        more={"labels": "1,2"},
    ),
    "labels in words": Case(
        data="a,y\n1,no\n2,yes\n3,no\n4,yes\n",
        options={"loss": "logistic", "ridge": 0.1},
        error="such as --labels no,yes",
        more={"labels": "no,yes"},
    ),
    "three labels": Case(
        data="a,y\n1,1\n2,2\n3,3\n4,2\n",
        options={"loss": "logistic", "ridge": 0.1, "labels": "1,2"},
        error="also has the labels '3'; .* --labels 2",
        more={"labels": "2"},
    ),
    "labels that a line separates": Case(
        data="a,y\n-1,0\n-2,0\n3,1\n4,1\n",
        options={"loss": "logistic"},
        error="add a ridge, for example --ridge 0.001",
        more={"ridge": 0.001},
    ),
    "fewer samples than nodes": Case(
        data="a,y\n1,0\n2,0\n",
        error="use a network of at most 2 nodes",
        mended={"data.csv": TABLE},
    ),
    "byte order mark": Case(data="\ufeff" + TABLE),
    "semicolons and decimal commas": Case(data="a;b;y\n1,5;2;3\n4;5;6\n7;8;9\n1;0;2,5\n"),
    "gzip": Case(data=gzip.compress(TABLE.encode(), mtime=0), file="data.csv.gz"),
    "gzip without the suffix": Case(data=gzip.compress(TABLE.encode(), mtime=0)),
    "line ends of Windows": Case(data=TABLE.replace("\n", "\r\n")),
    "a header of numbers": Case(data="0,1,2\n1,2,3\n4,5,6\n7,8,9\n1,0,2\n"),
    "a header alone": Case(
        data="a,b,y\n",
        error="no sample in the file.*a line with the values of a sample",
        mended={"data.csv": TABLE},
    ),
    "a first line that may be both": Case(
        data="0,1\n3,4\n5,6\n7,8\n",
        error="--header or --no-header",
        more={"header": False, "ridge": 0.1},
    ),
    "node ids from 1": Case(net="1 2\n2 3\n", data="n,a,y\n1,1,2\n2,3,4\n3,5,6\n3,1,1\n",
                            options={"node": "n"}),
    "node ids that pandas made floats": Case(
        data="n,a,y\n0.0,1,2\n1.0,3,4\n2.0,5,6\n1.0,1,1\n", options={"node": "n"}
    ),
    "weights in the third column": Case(net="0 1 0.5\n1 2 7\n"),
    "two components": Case(
        net="0 1\n1 2\n7 8\n", error="--largest-component", more_network={"largest_component": True}
    ),
    "a directed list": Case(
        net="# Directed graph\n0 1\n1 2\n",
        network={"directed": "error"},
        error="--directed symmetrise",
        more_network={"directed": "symmetrise"},
    ),
    "CSV in a .txt file": Case(
        file="data.txt", error="--data-format csv", more={"format": "csv"}
    ),
    "LIBSVM indices from 0": Case(
        data="1 0:1 2:3\n2 1:4\n3 0:2\n4 2:2\n",
        file="data.svm",
        error="--index-base 0",
        more={"index_base": 0},
    ),
    "a huge sparse file": Case(
        data=f"1 1:1 {10**11}:3\n2 2:4\n3 3:2\n4 2:2\n",
        file="data.svm",
        error="features with --features",
        more={"features": "1-3"},
    ),
    "an unknown suffix": Case(file="data.dat", error="--data-format", more={"format": "csv"}),
    "an index column of pandas": Case(data=",a,b,y\n0,1,2,3\n1,4,5,6\n2,7,8,9\n3,1,0,2\n"),
    "a node with all its neighbours on a line": Case(
        net="0 1 2\n1 2\n",
        error="line 1: a node with all its neighbours, .* write one edge on each line",
        mended={"net.txt": "0 1\n0 2\n1 2\n"},
    ),
    "arrows between the ids": Case(
        net="0 -> 1\n1 -> 2\n", error="the arrow '->', which should be left out",
        mended={"net.txt": PATH},
    ),
    "a network in GML": Case(
        net="graph [ node [ id 0 ] ]", net_file="net.gml",
        error="save it as an edge list or as GraphML", mended={"net.txt": PATH},
    ),
    "a packed network": Case(
        net="BZh9", net_file="net.txt.bz2", error="unpack it first", mended={"net.txt": PATH},
    ),
    "a table in UTF-16": Case(
        data=TABLE.encode("utf-16"), error="save the file as UTF-8", mended={"data.csv": TABLE}
    ),
    "a table in Latin-1": Case(
        data=TABLE.replace("a", "größe").encode("latin-1"),
        error="save the file as UTF-8",
        mended={"data.csv": TABLE.replace("a", "größe")},
    ),
    "a spreadsheet": Case(
        data=b"PK\3\4", file="data.xlsx", error="save it as CSV", mended={"data.csv": TABLE}
    ),
    "a comment above the table": Case(
        data="# by me\n" + TABLE, error="delete comments", mended={"data.csv": TABLE}
    ),
    "two columns of one name": Case(
        data=TABLE.replace("b", "a"), options={"features": "a"},
        error="the column 'a' is twice or more .* give its position", more={"features": "0"},
    ),
    "an option of another format": Case(
        options={"index_base": 0}, error="drop --index-base", more={"index_base": None}
    ),
    "a column of nodes in LIBSVM": Case(
        data="1 1:1 2:3\n2 1:4\n3 2:2\n4 1:2\n", file="data.svm", options={"node": "who"},
        error="leave --node out", more={"node": None},
    ),
    "true and false": Case(
        data="a,y\n1,True\n2,False\n3,True\n4,False\n",
        options={"loss": "logistic", "ridge": 0.1},
        error="such as --labels False,True",
        more={"labels": "False,True"},
    ),
    "quantities for a logistic loss": Case(
        data="a,y\n1,0.3\n2,0.7\n3,0.1\n4,0.2\n",
        options={"loss": "logistic"},
        error="use --loss least_squares for targets that are quantities",
        more={"loss": "least_squares"},
    ),
    "features of zeros": Case(
        data="n,a,y\n0,0,1\n1,2,3\n2,4,5\n2,1,1\n", options={"node": "n"},
        error="node 0 has only zero features: .* give --ridge 0.01", more={"ridge": 0.01},
    ),
}  # fmt: skip


def problem_of(folder, case, network, options):
    graph = read_network_text(str(folder / case.net_file), options=network)
    graph.require_connected()
    problem = read_problem_text(str(folder / case.file), graph, options=options)
    assert problem.optimum.shape == (problem.dim,)
    return graph, problem


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_input_works_or_has_a_remedy_that_works(tmp_path, name):
    case = CASES[name]
    (tmp_path / case.net_file).write_text(case.net)
    content = case.data.encode() if isinstance(case.data, str) else case.data
    (tmp_path / case.file).write_bytes(content)
    network, options = dict(case.network), dict(case.options)
    with command_line(), warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.DataWarning)
        if case.error is not None:
            with pytest.raises(lw.LevywalkError, match=case.error):
                problem_of(tmp_path, case, network, options)
            network |= case.more_network
            options |= case.more
            options = {key: value for key, value in options.items() if value is not None}
            for file, text in case.mended.items():
                (tmp_path / file).write_text(text, encoding="utf-8")
                known = {"net_file" if file.startswith("net") else "file": file}
                case = case._replace(**known)
        graph, problem = problem_of(tmp_path, case, network, options)
    assert problem.n == graph.n == 3
    assert problem.n_samples == case.samples
