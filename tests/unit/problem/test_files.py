"""Data files: what is read, and that every flaw is named with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from levywalk.errors import InvalidData, InvalidParameter, MissingFile, TooLarge
from levywalk.problem import Logistic, load_dataset

A9A = Path(__file__).parents[2] / "data" / "a9a.t.svm.gz"


def written(folder, name, text):
    path = folder / name
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return path


@pytest.mark.more
def test_a9a_is_read_as_sklearn_reads_it():
    features, targets = load_dataset(A9A)
    expected, labels = load_svmlight_file(str(A9A))
    assert features.shape == (16_281, 122)
    np.testing.assert_array_equal(features, expected.toarray())
    np.testing.assert_array_equal(targets, labels)
    assert load_dataset(A9A, dim=123)[0].shape == (16_281, 123)
    problem = Logistic(features, targets, ridge=1e-2)
    assert np.abs(problem.local_gradients(problem.optimum).mean(axis=0)).max() < 1e-12


def test_random_libsvm_files_are_read_as_sklearn_reads_them(tmp_path):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 7)) * (rng.random((30, 7)) < 0.4)
    path = tmp_path / "random.libsvm"
    dump_svmlight_file(
        features, rng.normal(size=30), str(path), zero_based=False, comment="a comment"
    )
    expected, labels = load_svmlight_file(str(path), n_features=7)
    read, targets = load_dataset(path, dim=7)
    np.testing.assert_array_equal(read, expected.toarray())
    np.testing.assert_array_equal(targets, labels)


@pytest.mark.parametrize(
    "name", ["a.svm", "a.libsvm", "a.t", "a.txt", "A.SVM", "a.svm.gz", "a.b.t.gz"]
)
def test_libsvm_suffixes_comments_blank_lines_and_line_ends(tmp_path, name):
    path = written(tmp_path, name, "# head\r\n+1 1:0.5 3:-2e1 # tail\r\n\r\n-1\r\n")
    features, targets = load_dataset(path)
    np.testing.assert_array_equal(features, [[0.5, 0, -20], [0, 0, 0]])
    np.testing.assert_array_equal(targets, [1, -1])


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("header", ["", "a, b ,y\n"])
def test_csv_takes_the_last_column_with_or_without_header(tmp_path, name, header):
    features, targets = load_dataset(written(tmp_path, name, header + '1,2,3\n\n4,5e0,"6"\n'))
    np.testing.assert_array_equal(features, [[1, 2], [4, 5]])
    np.testing.assert_array_equal(targets, [3, 6])


@pytest.mark.parametrize("target", ["a", 0, -3])
def test_csv_target_by_name_or_position(tmp_path, target):
    features, targets = load_dataset(
        written(tmp_path, "a.tsv", "a\tb\ty\n1\t2\t3\n4\t5\t6\n"), target=target
    )
    np.testing.assert_array_equal(features, [[2, 3], [5, 6]])
    np.testing.assert_array_equal(targets, [1, 4])


def test_csv_with_semicolons_and_byte_order_mark(tmp_path):
    features, targets = load_dataset(written(tmp_path, "a.csv", "\ufeff1;2\n3;4\n"))
    np.testing.assert_array_equal(features, [[1], [3]])
    np.testing.assert_array_equal(targets, [2, 4])


@pytest.mark.parametrize("names", [("features", "targets"), ("X", "y")])
@pytest.mark.parametrize("zipped", [False, True])
def test_npz_by_either_pair_of_names(tmp_path, names, zipped):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, **{names[0]: np.eye(2), names[1]: np.array([1, 2])})
    if zipped:
        path = written(tmp_path, "b.npz.gz", path.read_bytes())
    features, targets = load_dataset(path)
    np.testing.assert_array_equal(features, np.eye(2))
    assert targets.dtype == np.float64


def test_npz_target_may_be_named(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.eye(2), y=[1, 2], z=[3, 4])
    assert load_dataset(path, target="z")[1].tolist() == [3, 4]
    with pytest.raises(InvalidData, match="it has 'X', 'y', 'z'"):
        load_dataset(path, target="w")
    with pytest.raises(InvalidParameter, match="target must name"):
        load_dataset(path, target=1)


def test_npz_never_unpickles(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.array([{}], dtype=object), y=[1])
    with pytest.raises(InvalidData, match="plain arrays"):
        load_dataset(path)


BAD = [
    (
        "a.svm",
        "1 1:1\nx 1:1\n",
        "line 2: the label 'x' is not a finite number; the line is 'x 1:1'",
    ),
    ("a.svm", "1 1:1\n\n1 0:1\n", "line 3: index 0; LIBSVM indices start at 1"),
    ("a.svm", "1 2:1 2:1\n", "line 1: index 2 after 2; indices must increase"),
    ("a.svm", "1 3:1 2:1\n", "line 1: index 2 after 3"),
    ("a.svm", "1 1:abc\n", "line 1: the value in '1:abc'"),
    ("a.svm", "1 1:1_0\n", "line 1: the value in '1:1_0'"),
    ("a.svm", "1 1:nan\n", "line 1: the value in '1:nan' is not a finite number"),
    ("a.svm", "inf 1:1\n", "line 1: the label 'inf'"),
    ("a.svm", "1 -1:1\n", "line 1: the index in '-1:1'"),
    ("a.svm", "1 qid:1 1:2\n", "line 1: the index in 'qid:1'"),
    ("a.svm", "1 5\n", "line 1: '5' is not index:value"),
    ("a.svm", "1,2 1:5\n", "line 1: the label '1,2'"),
    ("a.svm", "", "no sample in the file"),
    ("a.svm", "# only\n", "no sample in the file"),
    ("a.svm", "1\n-1\n", "no feature in the file"),
    ("a.svm", b"\xff\xfe\x00\x01\n", "not text in UTF-8"),
    ("a.svm", "1 1:x" + "9" * 500, "the line is '1 1:x9{55}…'"),
    ("a.csv", "a,b\n1,2\n3\n", "line 3: 1 columns where the first line has 2; the line is '3'"),
    ("a.csv", "a,b\n1,2\n3,\n", "line 3: column 'b' holds '', not a finite number"),
    ("a.csv", "1,2\n3,NaN\n", "line 2: column 1 holds 'NaN'"),
    ("a.csv", "1,x,2\n3,4,5\n", "line 1: column 1 holds 'x'"),
    ("a.csv", 'a,b\n1,"2\n', "line 2: not CSV"),
    ("a.csv", "a,b\n", "no sample in the file"),
    ("a.csv", "", "no sample in the file"),
    ("a.csv", "1\n2\n", "line 1: one column"),
    ("a.npz", b"PK nonsense", "not npz"),
    ("a.npz", b"", "not npz"),
]


@pytest.mark.parametrize(
    ("name", "text", "message"), BAD, ids=[message[:40] for *_, message in BAD]
)
def test_flaws_are_named_with_their_line(tmp_path, name, text, message):
    with pytest.raises(InvalidData, match=message):
        load_dataset(written(tmp_path, name, text))


def test_npz_flaws_are_named(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=[1], b=[2])
    with pytest.raises(InvalidData, match=r"features and targets, or X and y.*it has 'a', 'b'"):
        load_dataset(path)
    np.savez(path, X=[[1.0], [np.nan]], y=[1, 2])
    with pytest.raises(InvalidData, match=r"a.npz: features must be finite, got nan at row 1"):
        load_dataset(path)
    np.save(tmp_path / "b.npy", np.eye(2))
    with pytest.raises(InvalidData, match="not npz"):
        load_dataset(tmp_path / "b.npy", format="npz")


def test_truncated_or_damaged_gzip_is_named(tmp_path):
    whole = gzip.compress(b"1 1:0.123\n" * 5000, mtime=0)
    path = tmp_path / "a.svm.gz"
    for damaged in (whole[:-12], whole[:40], whole[:-8] + b"\0" * 8):
        path.write_bytes(damaged)
        with pytest.raises(InvalidData, match="damaged or cut off gzip"):
            load_dataset(path)


def test_a_missing_file_is_also_a_file_not_found_error(tmp_path):
    with pytest.raises(MissingFile):
        load_dataset(tmp_path / "none.svm")
    with pytest.raises(FileNotFoundError):
        load_dataset(tmp_path / "none.svm")
    with pytest.raises(InvalidParameter, match="folder"):
        load_dataset(tmp_path)


def test_a_matrix_that_would_not_fit_is_refused_before_it_is_made(tmp_path):
    path = written(tmp_path, "a.svm", "1 1:1\n" * 10 + f"1 {10**9}:1\n")
    with pytest.raises(TooLarge, match="1000000000 features with their names would take 74"):
        load_dataset(path)
    path = written(tmp_path, "b.svm", "1 1:1\n" * 1000 + f"1 {10**6}:1\n")
    assert load_dataset(path)[0].shape == (1001, 10**6)
    with pytest.raises(TooLarge, match=r"shape 1001 x 1000000 would take 7\.5 GiB"):
        load_dataset(path, dense=True)


def test_arguments_that_do_not_fit_the_file_are_refused(tmp_path):
    svm, table = written(tmp_path, "a.svm", "1 3:1\n"), written(tmp_path, "a.csv", "1,2\n3,4\n")
    with pytest.raises(InvalidData, match="index 3 is above dim = 2"):
        load_dataset(svm, dim=2)
    with pytest.raises(InvalidParameter, match="the target of a LIBSVM file is the label"):
        load_dataset(svm, target=0)
    with pytest.raises(InvalidData, match="expected dim = 2 features, found 1"):
        load_dataset(table, dim=2)
    with pytest.raises(InvalidParameter, match=r"target must be an integer in \[-2, 1\], got 2"):
        load_dataset(table, target=2)
    with pytest.raises(InvalidData, match="no header to find target = 'y' in"):
        load_dataset(table, target="y")
    with pytest.raises(InvalidData, match="'z' is not in the header 'a', 'b'"):
        load_dataset(written(tmp_path, "b.csv", "a,b\n1,2\n"), target="z")
    with pytest.raises(InvalidParameter, match=r"format of 'a\.dat' is unknown"):
        load_dataset(written(tmp_path, "a.dat", "1,2\n"))
    assert load_dataset(written(tmp_path, "a.dat", "1,2\n"), format="csv")[1].tolist() == [2]
