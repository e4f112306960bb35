"""`tunesmith train`: a pretrained model from the records of a database, and how good it is."""

import argparse
import datetime as dt
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunesmith import __version__
from tunesmith.cli.commands import add_common, comma_list, seed
from tunesmith.cli.database import open_database
from tunesmith.cli.errors import CommandError, UsageError
from tunesmith.cli.output import emit_json, format_bytes, format_percent, line, note, table

if TYPE_CHECKING:
    from tunesmith.costmodel import Samples
    from tunesmith.costmodel.evaluation import Scores

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SHARE = 0.2  # of the workloads, held out for the evaluation when no families are named

SUMMARY = """\
Train the cost model's pretrained part on all records of a database, your own included, and evaluate it on
workloads that it has not seen: the families named, or a fifth of all workloads. The model that is written has
seen all records but those of the families named."""

EXAMPLES = (
    "tunesmith train --db sqlite:///pretraining.db",
    "tunesmith train --held-out attention,conv2d_capsule --out mine.zip",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the model (default: only evaluate)")
    parser.add_argument("--held-out", type=comma_list, default=(), metavar="A,B", help="families to hold out")
    parser.add_argument(
        "--objective",
        choices=("within", "pairs"),
        default="within",
        help="squared error within tasks, or the order of pairs (default: within)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="the same seed and records give the same model")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress on standard error")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    from tunesmith.costmodel import Objective, Recipe, save_model
    from tunesmith.costmodel.training import evaluate, evaluate_prior, held_out, train
    from tunesmith.tuning import load_dataset

    with open_database(args.db) as store:
        data = load_dataset(store, on_task=(lambda _: None) if args.quiet else _progress)
    if not args.quiet:
        note("")
    _check(data.tasks, args.held_out)
    recipe = Recipe(args.seed, Objective(args.objective))
    seen, unseen = held_out(data.tasks, args.held_out, SHARE, args.seed)
    if not seen or not unseen:
        raise CommandError(
            f"{len(data.tasks)} workloads are too few to hold some out; `tunesmith collect` first"
        )
    model = train(seen, recipe)
    prior, learned = evaluate_prior(unseen), evaluate(model, unseen)
    about = {
        "package": __version__,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "held_out": list(args.held_out),
        "evaluation": {"prior": asdict(prior), "model": asdict(learned)},
    }
    final = train(seen if args.held_out else data.tasks, recipe, about)
    size = None if args.out is None else save_model(final, args.out)
    facts = {
        "records": data.records,
        "tasks": len(data.tasks),
        "unplaced": data.unplaced,
        "small": data.small,
    }
    if args.json:
        emit_json({**facts, **about, "file": args.out, "bytes": size})
        return 0
    left = f"{data.unplaced} in no sketch of today's spaces, {data.small} workloads with too few"
    line(f"{data.records} records of {len(data.tasks)} workloads ({left})")
    line(f"held out: {', '.join(args.held_out) or f'{SHARE:.0%} of the workloads'}")
    line()
    _print_scores({"prior": prior, "model": learned})
    line()
    _print_families(unseen, model)
    if args.out is not None and size is not None:
        line()
        line(f"{args.out}: {format_bytes(size)}; TUNESMITH_MODEL={args.out} makes every command use it")
    return 0


def _progress(number: int) -> None:
    sys.stderr.write(f"\r{number} workloads read")
    sys.stderr.flush()


def _check(tasks: "Sequence[Samples]", families: Sequence[str]) -> None:
    known = sorted({t.family for t in tasks})
    unknown = sorted(set(families) - set(known))
    if unknown:
        raise UsageError(f"no records of {', '.join(unknown)}; there are {', '.join(known) or 'none at all'}")


def _print_scores(rows: "dict[str, Scores]") -> None:
    cells: list[tuple[Any, ...]] = [
        (
            name,
            f"{s.tasks}",
            f"{s.candidates}",
            format_percent(s.pairwise),
            format_percent(s.top1),
            format_percent(s.top5),
            f"{s.calibration.error:.2f}×",
            f"{s.calibration.bias:.2f}×",
        )
        for name, s in rows.items()
    ]
    headers = ("", "workloads", "candidates", "pairs right", "top 1", "top 5", "error", "bias")
    table(headers, cells, right=range(1, len(headers)))


def _print_families(tasks: "Sequence[Samples]", model: Any) -> None:
    """Pairs right and quality of the first by family, before and after."""
    from tunesmith.costmodel.training import evaluate, evaluate_prior

    rows = []
    for family in sorted({t.family for t in tasks}):
        mine = [t for t in tasks if t.family == family]
        before, after = evaluate_prior(mine), evaluate(model, mine)
        pairs = (format_percent(s.pairwise) for s in (before, after))
        top1 = (format_percent(s.top1) for s in (before, after))
        rows.append((family, str(len(mine)), *pairs, *top1))
    headers = ("family", "workloads", "pairs right: prior", "model", "top 1: prior", "model")
    table(headers, rows, right=range(1, len(headers)))
