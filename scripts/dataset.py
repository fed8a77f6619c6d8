"""What the measuring scripts share: the rows of a data set and the repositories they are about."""

import json
import pathlib
import tarfile

BINARY = pathlib.Path(__file__).resolve().parent.parent / "target" / "release" / "sightline"


def read(path):
    """The rows of a JSON lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def repository(folder, repo, unpacked):
    """The git repository `owner+name.git` in a folder; a `.git.tar` of one is unpacked into `unpacked`."""
    name = repo.replace("/", "+") + ".git"
    if (folder / name).is_dir():
        return git_dir(folder / name)
    target = unpacked / name
    if not target.exists():
        with tarfile.open(folder / (name + ".tar")) as archive:
            archive.extractall(target, filter="data")
    return git_dir(target)


def git_dir(path):
    """The folder that holds HEAD, which may be one level down in an archive."""
    return next(it for it in [path, *path.iterdir()] if (it / "HEAD").exists() or (it / ".git").exists())
