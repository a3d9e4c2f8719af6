"""What the command ``workbench`` can be asked for.

Every message for the user is one sentence on standard error; results go to standard output. Exit codes
of ``run`` stand in ``workbench.headless.run``, those of ``regress`` in ``workbench.headless.regress``.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from workbench.errors import SettingError
from workbench.headless.catalog import find_notebooks, open_notebook
from workbench.headless.console import Console
from workbench.headless.parameters import declared, split_assignment
from workbench.headless.run import Settings, execute, plan_run

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Lenses on the geometry of generative models, run from notebooks without a person.",
)

Parameters = Annotated[
    list[str] | None, typer.Option("-p", metavar="NAME=VALUE", help="A parameter; repeatable.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:INDEX or mps.")]
Dtype = Annotated[str, typer.Option(help="float32 or float64 as torch's default.")]
Threads = Annotated[int | None, typer.Option(help="Threads of torch and OpenMP.")]
Seconds = Annotated[float | None, typer.Option(help="Seconds.")]


@app.command()
def run(
    notebook: Annotated[str, typer.Argument(help="Name of a shipped notebook, or a path.")],
    p: Parameters = None,
    preset: Annotated[str, typer.Option(help="Name of a preset, or a YAML file.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="A folder that does not exist; runs/NOTEBOOK-HASH.")
    ] = None,
    device: Device = "",
    dtype: Dtype = "",
    threads: Threads = None,
    timeout: Seconds = None,
    cell_timeout: Seconds = None,
    fast: Annotated[bool, typer.Option("--fast", help="Do not insist on deterministic arithmetic.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run a notebook and leave a folder: notebook, report.html, metrics.json, run.json.

    Exit codes: 0 completed, 2 bad parameters, 3 error in the notebook, 4 time-out, 5 kernel died,
    6 out of memory, 7 disk full, 130 cancelled.
    """
    plan = plan_run(
        notebook,
        arguments=dict(split_assignment(text) for text in p or []),
        preset=preset,
        settings=Settings(device, dtype, threads, timeout, cell_timeout, not fast),
    )
    with Console(quiet=quiet) as console:
        result = execute(plan, out=out, listener=console)
    print(f"report  {result.folder / 'report.html'}")
    print(f"metrics {result.folder / 'metrics.json'}")
    for name, metric in result.metrics.items():
        print(f"  {name} = {metric['value']}{' ' + metric['unit'] if metric['unit'] else ''}")
    if result.exit_code:
        print(f"{plan.notebook.name}: {result.status}: {result.message}", file=sys.stderr)
    raise typer.Exit(result.exit_code)


@app.command("list")
def list_notebooks(
    notebook: Annotated[str | None, typer.Argument(help="Only this one.")] = None,
) -> None:
    """List the notebooks with their presets and parameters."""
    for path in [notebook] if notebook else find_notebooks():
        book = open_notebook(path)
        print(f"{book.name}: {_title(book.node)}")
        for preset in book.presets().values():
            print(f"  preset {preset.name}{': ' + preset.about if preset.about else ''}")
        for item in declared(book).parameters:
            note = ", ".join(filter(None, (item.constraint, item.about)))
            print(f"  -p {item.name}={item.default!r}  ({item.type_name}{'; ' + note if note else ''})")


@app.command()
def notebooks(
    names: Annotated[list[str] | None, typer.Argument(help="Only these.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Execute nothing, only look.")] = False,
) -> None:
    """Execute the notebooks, write them back with their records only, fail if anything volatile is left."""
    from workbench.headless import refresh

    paths = [open_notebook(name).path for name in names] if names else find_notebooks()
    if not check:
        for path in paths:
            with Console() as console:
                changed = refresh.refresh(path, listener=console)
            print(f"{path.name}: {'refreshed' if changed else 'unchanged'}")
    found = refresh.check(paths)
    for thing in found:
        print(thing, file=sys.stderr)
    raise typer.Exit(1 if found else 0)


@app.command()
def regress(
    names: Annotated[list[str] | None, typer.Argument(help="Notebooks; all that are shipped.")] = None,
    device: Device = "",
    dtype: Dtype = "",
    threads: Threads = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
    budget: Annotated[str, typer.Option(help="Stop within this time, such as 8m; go on later.")] = "",
    out: Annotated[Path | None, typer.Option(help="A folder; taken up again if it is incomplete.")] = None,
    timeout: Seconds = None,
    update: Annotated[bool, typer.Option("--update", help="Make what is recorded now the baseline.")] = False,
    reason: Annotated[str, typer.Option(help="Why the baselines may change; kept in them.")] = "",
    spread: Annotated[bool, typer.Option(help="Measure the spread over threads and seeds.")] = True,
) -> None:
    """Run the notebooks at their regression presets and compare every recorded number.

    Exit codes: 0 all agree, 1 a difference, 2 a run or a baseline that failed, 4 budget spent, 130 cancelled.
    """
    from workbench.headless import regress as regression
    from workbench.headless import verdicts

    if update and not reason.strip():
        raise SettingError("--update without a reason", "--reason TEXT")
    _at_least("--jobs", jobs, 1)
    seconds = regression.parse_budget(budget) if budget else None
    books = [open_notebook(name) for name in names or find_notebooks()]
    cases = regression.plan_cases(books, Settings(device, dtype, threads, timeout), out)
    with Console() as console:

        def tell(case, moment) -> None:
            if moment is None:
                print(f"{case.name}: {case.state} {case.message}".rstrip(), file=sys.stderr)
            elif jobs == 1:
                console(moment)

        judged = regression.regress(cases, jobs=jobs, budget=seconds, listener=tell)
    if update:
        for case in judged.cases:
            _, moved = regression.update(case, reason, spread=spread)
            print(verdicts.text_table([replace(case, state="updated", verdicts=moved)]))
        return
    print(verdicts.text_table(judged.cases))
    verdicts.write_reports(judged)
    print(f"page {judged.folder / 'regress.html'}")
    raise typer.Exit(judged.exit_code)


@app.command("sweep")
def sweep_notebook(
    notebook: Annotated[str, typer.Argument(help="Name of a shipped notebook, or a path.")],
    grid: Annotated[Path, typer.Option(help="YAML with fixed, grid, list, random.")],
    out: Annotated[Path | None, typer.Option(help="A new folder, or that of a sweep to go on with.")] = None,
    preset: Annotated[str, typer.Option(help="Preset under the points.")] = "",
    jobs: Annotated[int, typer.Option(help="Workers on this machine, or batch jobs.")] = 1,
    scheduler: Annotated[str, typer.Option(help="Address of a running dask scheduler.")] = "",
    slurm: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Repeatable.")] = None,
    pbs: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Repeatable.")] = None,
    show_script: Annotated[bool, typer.Option("--show-script", help="Print the job script.")] = False,
    devices: Annotated[str, typer.Option(help="Devices to hand out, such as cuda:0,cuda:1.")] = "",
    retries: Annotated[int, typer.Option(help="Further attempts after a loss.")] = 2,
    dtype: Dtype = "",
    threads: Threads = 1,
    timeout: Seconds = None,
    cell_timeout: Seconds = None,
) -> None:
    """Run a notebook at many points, each in a process of its own; go on where an earlier call stopped.

    Exit codes: 0 all completed, 2 bad settings, 3 some points failed, 130 interrupted.
    """
    from workbench.headless import clusters
    from workbench.headless import sweep as sweeps
    from workbench.headless.grid import read_points

    _at_least("--jobs", jobs, 1)
    _at_least("--retries", retries, 0)
    system = "slurm" if slurm else ("pbs" if pbs else "")
    options = dict(split_assignment(text) for text in slurm or pbs or [])
    if show_script:
        print(clusters.job_script(system or "slurm", options))
        return
    if scheduler:
        clusters.check_address(scheduler)
    settings = Settings("", dtype, threads, timeout, cell_timeout)
    book = open_notebook(notebook)
    folder = out or Path("runs") / f"sweep-{book.name}"
    planned = sweeps.plan_sweep(book, read_points(grid), folder, settings=settings, preset=preset)
    total = len(planned.points)
    print(f"{total - len(planned.missing)} of {total} points were completed before", file=sys.stderr)

    def tell(point, state: str) -> None:
        done = total - len(planned.missing)
        print(f"[{done:4d}/{total}] {point.key} {state}", file=sys.stderr, flush=True)

    given = list(filter(None, devices.split(",")))
    if system:
        options.setdefault("log_directory", str(folder / "jobs"))
    where = clusters.cluster_for(scheduler=scheduler, jobs=jobs, system=system, options=options)
    try:
        if planned.missing:
            with where as cluster:
                sweeps.sweep(planned, cluster, retries=retries, devices=given, listener=tell)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        raise typer.Exit(130) from None
    print(f"sweep {folder}: {total - len(planned.missing)} of {total} points completed")
    for point in planned.missing:
        print(f"  {point.key} {planned.states[point.key]} {dict(point.parameters)}", file=sys.stderr)
    raise typer.Exit(3 if planned.missing else 0)


@app.command("table")
def tabulate(
    folder: Annotated[Path, typer.Argument(help="What `workbench sweep` left.")],
    metric: Annotated[str, typer.Option(help="What is plotted.")] = "",
    x: Annotated[str, typer.Option(help="Over which parameter.")] = "",
    colour: Annotated[str, typer.Option(help="One line for each value of this.")] = "",
) -> None:
    """Collect the points of a sweep into table.parquet, table.csv and table.html."""
    from workbench.headless.tables import write_table

    for path in write_table(folder, metric=metric, x=x, colour=colour):
        print(path)


@app.command()
def doctor(
    model: Annotated[str, typer.Argument(help="A shipped model, or a local file or folder.")],
    data: Annotated[
        str,
        typer.Option(help="fashion, digits, a folder of pictures, or an .npy, .npz or .safetensors file."),
    ] = "",
    device: Device = "cpu",
    dtype: Dtype = "float32",
    count: Annotated[int | None, typer.Option(help="Samples looked at; as many as take some 20 s.")] = None,
    seed: Annotated[int, typer.Option(help="Of all draws.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Examine a model: whether it is what it is declared to be, which lenses can use it, at what cost.

    Exit codes: 0 sound, 1 faulty, 2 unreadable or bad settings.
    """
    import torch

    from workbench.adapters.open import dtype_of, open_model
    from workbench.devices import resolve_device
    from workbench.doctor import examine

    _at_least("--seed", seed, 0)
    if count is not None:
        _at_least("--count", count, 2)
    precision = dtype_of(dtype)
    opened = open_model(model, device=device, dtype=precision)

    def tell(fraction: float, message: str) -> None:
        if not quiet:
            print(f"{fraction:4.0%} {message}", file=sys.stderr, flush=True)

    diagnosis = examine(
        opened,
        data=data or None,
        count=count,
        device=device,
        dtype=precision,
        generator=torch.Generator(resolve_device(device)).manual_seed(seed),
        progress=tell,
    )
    print(diagnosis.text())
    raise typer.Exit(0 if diagnosis.sound else 1)


@app.command()
def lab(
    port: Annotated[int | None, typer.Option(help="Port; a free one by default.")] = None,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    prepare_only: Annotated[bool, typer.Option("--prepare-only", help="Start no server.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the copies.")] = Path(".lab"),
) -> None:
    """Execute the tour into a copy and open JupyterLab on it; the notebooks themselves stay untouched."""
    from workbench.headless.lab import open_lab, prepare_lab

    with Console() as console:
        tour = prepare_lab(out, listener=console)
    print(f"tour {tour}")
    if not prepare_only:
        raise typer.Exit(open_lab(tour, port=port, browser=browser))


@app.command("app")
def serve_page(
    model: Annotated[Path | None, typer.Option(help="A folder or file with a model of your own.")] = None,
    port: Annotated[int, typer.Option(help="Port; 0 for a free one.")] = 5006,
    address: Annotated[str, typer.Option(help="Address to listen on; beyond this machine with --token.")] = (
        "127.0.0.1"
    ),
    token: Annotated[
        str, typer.Option(envvar="WORKBENCH_TOKEN", help="What visitors must know, 16 characters or more.")
    ] = "",
    computations: Annotated[int, typer.Option(help="At once; half the cores if 0.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Serve the lenses as a page, for people without notebooks, until it is interrupted."""
    from workbench.headless.page import open_page

    if not 0 <= port < 2**16:
        raise SettingError(f"--port {port}", "a number from 0 to 65535", "--port 0 for a free one")
    _at_least("--computations", computations, 0)
    raise typer.Exit(
        open_page(
            model=model, port=port, address=address, token=token, computations=computations, browser=browser
        )
    )


def _at_least(option: str, value: int, least: int) -> None:
    """Refuse a count that is too small."""
    if value < least:
        raise SettingError(f"{option} {value}", f"{least} or more")


def _title(notebook) -> str:
    """The first heading of a notebook."""
    lines = (line for c in notebook.cells if c.cell_type == "markdown" for line in c.source.splitlines())
    return next((line.lstrip("# ").strip() for line in lines if line.startswith("#")), "")
