"""The documentation builds without a warning and lists everything public. Its links are right, its commands work,
and its search answers what newcomers ask."""

from __future__ import annotations

import ast
import html.parser
import importlib.util
import pathlib
import re
import subprocess
import sys
import urllib.parse
import zlib

import pytest

from numjax import build, main
from numjax.__main__ import list_tools
from numjax.config import blocks as config_blocks
from numjax.config import fit, origin
from tests import pages
from tests.site_search import Search

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "numjax"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
    """The folder of the built pages. The build fails at a warning; tutorials are not run."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, str(ROOT / "docs" / "build.py"), "--no-execute", f"--out={folder}"]
    process = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=600)
    assert process.returncode == 0, process.stderr[-4000:]
    return folder / "html"


# -- everything public is in the reference ---------------------------------------------------------------------------


def load_inventory(site: pathlib.Path) -> set[tuple[str, str]]:
    """(kind, name) of each object of the built site."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(content).decode().splitlines()
    return {(match[2], match[1]) for line in lines if (match := re.match(r"(.+?) (\S+:\S+) -?\d+ ", line))}


def list_public_names() -> set[str]:
    """The dotted names of the public modules, functions, classes and methods that numjax defines."""
    names = set()
    for path in PACKAGE.rglob("*.py"):
        parts = ("numjax", *path.relative_to(PACKAGE).with_suffix("").parts)
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if module.startswith("numjax.bundled.") or any(part.startswith("_") for part in module.split(".")):
            continue
        names.add(module)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names |= {f"{module}.{name}" for name in _list_definitions(tree)}
    return names


def _list_definitions(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            names.add(node.name)
            if isinstance(node, ast.ClassDef):
                names |= {f"{node.name}.{name}" for name in _list_definitions(node)}
    return names


def test_everything_public_is_in_the_reference(site):
    listed_names = {name for kind, name in load_inventory(site) if kind.startswith("py:")}
    public_names = list_public_names()
    assert len(public_names) > 1000
    assert not public_names - listed_names, sorted(public_names - listed_names)[:20]


def test_every_part_with_all_its_options_is_in_the_reference(site):
    listed_parts = {name for kind, name in load_inventory(site) if kind == "std:part"}
    assert listed_parts == {f"{kind}.{name}" for kind in build.BASE_OF_KIND for name in build.names(kind)}
    for kind in build.BASE_OF_KIND:
        page = (site / "generated" / "parts" / f"{kind}.html").read_text(encoding="utf-8")
        for name in build.names(kind):
            section = page.split(f'id="part-{kind}.{name}"')[1].split('class="std part"')[0]
            options = set(
                re.findall(r'<td><p><code class="docutils literal notranslate"><span class="pre">(\w+)<', section)
            )
            assert set(config_blocks.option_types(kind, name)) <= options, f"{kind}.{name}"


# -- links -----------------------------------------------------------------------------------------------------------


class _Links(html.parser.HTMLParser):
    """Collects the targets of a page's links and images, and its anchors."""

    def __init__(self, text: str):
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := values.get(key))}
        self.targets |= {value for key in ("href", "src") if (value := values.get(key)) and tag != "link"}


def test_every_internal_link_leads_to_a_file_and_an_anchor(site):
    links = {
        path: _Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if "_static" not in path.parts
    }
    assert len(links) > 100
    broken_links = []
    for path, page in links.items():
        for target in page.targets:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc or "genindex" in url.path or "py-modindex" in url.path:
                continue
            file = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            is_anchor = file not in links or not url.fragment or url.fragment in links[file].anchors
            if not file.is_file() or not is_anchor:
                broken_links.append(f"{path.relative_to(site)}: {target}")
    assert not broken_links, broken_links[:20]


# -- commands --------------------------------------------------------------------------------------------------------

BLOCKS = [block for page in pages.list_pages() for block in pages.find_blocks(page)]
SHOWN = {"{toctree}", "{include}", "{code-block}", "{code-cell}"}


def test_every_block_is_run_or_says_why_not():
    for block in BLOCKS:
        assert block.language in {"bash", "python"} | SHOWN, f"{block.page}: a block of {block.language!r}"
        if block.language == "{code-cell}":
            assert block.page.startswith("tutorials/"), f"{block.page}: only tutorials are run at the build"
    # No block is lost on the way: each has two fences.
    fences = [
        line for page in pages.list_pages() for line in page.read_text("utf-8").splitlines() if line[:3] == "```"
    ]
    assert len(fences) == 2 * len(BLOCKS) > 100


def test_every_command_has_flags_that_exist_and_parts_that_fit(tmp_path, monkeypatch):
    """Also of blocks that do not run. A workdir has the config of the first command that trains it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as numjax does for the folder in which it starts
    pages.write_files(BLOCKS)
    commands = [
        (block.page, words)
        for block in BLOCKS
        if block.language == "bash"
        for words in pages.split_commands(block.code)
    ]
    runs = [(page, words) for page, words in commands if words[0] == "numjax" and words[1] in main.MODES]
    runs += [
        (
            page,
            ["numjax", "train", *(word for word in words[2:] if not word.startswith(("--processes", "--devices")))],
        )
        for page, words in commands
        if words[:2] == ["numjax", "launch"] and "--help" not in words
    ]
    n_printed = sum(
        len(re.findall(rf"\bnumjax (?:{'|'.join(main.MODES)}|launch --proc)", block.code))
        for block in BLOCKS
        if block.language == "bash"
    )
    assert len(runs) == n_printed > 35
    runs.sort(key=lambda run: not any(word.startswith("--config=") for word in run[1]))
    for page, words in runs:
        config, mode, workdir = pages.parse_run(words)
        # A plan reads no data, so its task may lack a path.
        if mode != "compile":
            assert not list(fit.find_faults(config, build.build("tasks", config.task))), (page, words)
        if workdir and not (pathlib.Path(workdir) / origin.CONFIG_FILE).exists():
            origin.save_config(pathlib.Path(workdir), config.to_dict())
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page, words in commands:
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), f"{page}: make {words[1]}"
        elif words[0] == "numjax":
            assert words[1] in {*main.MODES, *list_tools()}, f"{page}: {words[:2]}"
        else:
            name = (
                words[2]
                .replace("experiments.", "numjax.bundled.experiments.")
                .replace("data.", "numjax.bundled.data.")
            )
            assert importlib.util.find_spec(name if words[2].startswith(("experiments", "data")) else words[2]), words


# Pages that train several models. `make test` parses their commands, `make test-all` runs them.
LONG_PAGES = {
    f"guides/{name}"
    for name in (
        "clusters", "configs", "evaluate", "generate", "notebook", "parts", "predict", "profiling", "train", "vectors"
    )
}  # fmt: skip
PAGES = sorted({block.page for block in BLOCKS if block.language in ("bash", "python") and not block.reason})


@pytest.fixture(scope="module")
def users_folder(tmp_path_factory) -> pathlib.Path:
    """A folder for all pages, so that a page finds the runs of another one."""
    return tmp_path_factory.mktemp("pages")


def find_training(workdir: str) -> str:
    """The first command of the guides that trains a workdir."""
    for block in BLOCKS:
        for line in block.code.splitlines() if block.language == "bash" and not block.reason else ():
            if f"--workdir={workdir}" in line.split() and "--config=" in line and "--mode=" not in line:
                return line
    raise LookupError(f"no command trains {workdir}")


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.whole] * (page in LONG_PAGES)) for page in PAGES]
)
def test_blocks_of_a_page_run_as_printed(page, users_folder, monkeypatch):
    monkeypatch.chdir(users_folder)
    own_blocks = [
        block for block in BLOCKS if block.page == page and not block.reason and block.language not in SHOWN
    ]
    pages.write_files(own_blocks)
    text = "".join(block.code for block in own_blocks)
    own_runs = {
        line.rpartition("--workdir=")[2].split()[0]
        for line in text.splitlines()
        if "--config=" in line and "--workdir=" in line
    }
    for workdir in dict.fromkeys(re.findall(r"\bruns/[\w-]+", text)):
        if workdir not in own_runs and not (users_folder / workdir / "best").exists():
            pages.run_block(pages.Block(page, "bash", find_training(workdir), ""), users_folder)
    for block in own_blocks:
        pages.run_block(block, users_folder)


# -- search ----------------------------------------------------------------------------------------------------------

# What a newcomer asks, in words and in a sentence, and the page that answers it.
QUESTIONS = [
    ("own data", "How do I use my own data?", "guides/data"),
    ("positions BERT", "Which positions fit BERT?", "generated/positions"),
    ("where is the checkpoint", "Where is the checkpoint?", "reference/workdir"),
    ("resume", "How do I resume?", "guides/resume"),
    ("add an embedding", "How do I add an embedding?", "guides/configs"),
    ("change learning rate", "How do I change the learning rate?", "guides/train"),
    ("run on 8 GPUs", "How do I run on 8 GPUs?", "guides/clusters"),
    ("exit code 4", "What does exit code 4 mean?", "reference/exit_codes"),
    ("load BERT weights", "Can I load BERT weights?", "guides/pretrained"),
    ("get probabilities", "How do I get probabilities?", "guides/predict"),
]


@pytest.mark.parametrize(("words", "question", "page"), QUESTIONS)
def test_search_answers_newcomers(site, words, question, page):
    search = Search(site)
    for query in (words, question):
        assert page in search.find_pages(query)[:3], f"{query}: {search.find_pages(query)[:5]}"
