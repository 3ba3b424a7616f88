"""The lock files fit pyproject.toml, are whole, agree with each other, and name files and no places."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
BUILD = [*PROJECT["build-system"]["requires"], "editables>=0.5"]
#: `hoptrio[docs]` in the tests' extra is the other extra.
TEST = [each for each in EXTRAS["test"] if not each.startswith("hoptrio[")] + EXTRAS["docs"]
#: File -> what it has to fit.
WANTED = {
    "runtime": PROJECT["project"]["dependencies"],
    "build": BUILD,
    "binary": PROJECT["project"]["dependencies"] + EXTRAS["binary"],
    "docs": PROJECT["project"]["dependencies"] + EXTRAS["docs"],
    "test": PROJECT["project"]["dependencies"] + TEST + BUILD,
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
each_file = pytest.mark.parametrize("file", WANTED)


def text(file):
    return (ROOT / "requirements" / f"{file}.txt").read_text()


def locked(file):
    """(requirement, its hashes) of each line; one package may stand there several times, for different Pythons."""
    lines = text(file).replace("\\\n", " ").splitlines()
    for line in (line for line in lines if line and not line.lstrip().startswith("#")):
        asked, *hashes = re.split(r"\s+--hash=", line)
        yield Requirement(asked.strip()), hashes


def versions(file, **environment):
    """Name -> version, in an environment that differs from this one by `environment`."""
    where = default_environment() | environment
    return {
        canonicalize_name(asked.name): str(asked.specifier).removeprefix("==")
        for asked, _ in locked(file)
        if asked.marker is None or asked.marker.evaluate(where)
    }


@each_file
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_what_is_locked_is_what_the_project_allows(file, python, machine):
    found = versions(file, python_version=python, python_full_version=f"{python}.0", platform_machine=machine)
    for asked in map(Requirement, WANTED[file]):
        assert asked.specifier.contains(found[canonicalize_name(asked.name)], prereleases=True), asked.name


@each_file
def test_every_package_has_one_exact_version_and_the_hashes_of_its_files(file):
    for asked, hashes in locked(file):
        [only] = asked.specifier
        assert only.operator == "=="
        assert Version(only.version)
        assert asked.url is None
        assert hashes, asked.name
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in hashes), asked.name


@each_file
def test_no_place_is_named(file):
    assert not re.search(r"https?:|file:|index-url|find-links|trusted-host|/\w+/", text(file))


@pytest.mark.parametrize("file", ["runtime", "build", "docs"])
def test_what_is_tested_is_what_is_installed_elsewhere(file):
    tested = versions("test")
    assert versions(file).items() <= tested.items()


@each_file
def test_what_a_package_needs_is_locked_too(file):
    """As far as what is installed here is what is locked, its metadata says what else it needs."""
    found, missing = versions(file), []
    for name, version in found.items():
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if installed.version != version:
            continue
        for needed in map(Requirement, installed.requires or ()):
            if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
                continue
            if not needed.specifier.contains(found.get(canonicalize_name(needed.name), "0.dev0"), prereleases=True):
                missing.append((name, str(needed)))
    assert missing == []
