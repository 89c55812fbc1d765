"""The table of files, hashes and addresses."""

import pytest

from colangevin.lab.data.sources import SOURCES


@pytest.mark.parametrize("name", SOURCES)
def test_every_file_has_its_own_hash(name):
    source = SOURCES[name]
    hashes = [*source.md5.values(), *source.unpacked.values()]
    hashes += [source.archive_md5] * bool(source.archive)
    assert all(len(h) == 32 and set(h) <= set("0123456789abcdef") for h in hashes)
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("name", SOURCES)
def test_addresses_are_folders(name):
    addresses = SOURCES[name].addresses
    assert addresses and all(a.startswith("http") and a.endswith("/") for a in addresses)


@pytest.mark.parametrize("name", SOURCES)
def test_every_packed_file_may_also_lie_there_unpacked(name):
    source = SOURCES[name]
    packed = {file.removesuffix(".gz") for file in source.md5 if file.endswith(".gz")}
    assert packed == set(source.unpacked)
    for file in packed:
        assert source.expected(file) == source.unpacked[file] != source.expected(f"{file}.gz")
