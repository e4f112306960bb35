"""What a record can be turned into: text to read, code to link."""

from tunesmith.codegen import ir_text, llvm
from tunesmith.codegen.library import header_text, library_ir, link_library
from tunesmith.ir import LoopNest, Program, TunesmithError, canonical, format_program, program_from_json
from tunesmith.ir.loopnest import Role, rename_buffers
from tunesmith.records import Record, Target
from tunesmith.schedule import Schedule, lower
from tunesmith.tuning.c_names import argument_names, symbol_name

__all__ = ["KINDS", "LEVELS", "artifact", "describe"]

KINDS = ("llvm", "asm", "object", "library", "header")
LEVELS = ("program", "schedule", "nest", "llvm", "asm", "record")


def _nest(record: Record) -> LoopNest:
    program = program_from_json(record.workload.program)
    nest = lower(canonical(program), Schedule.from_json(record.schedule))
    return _with_names(nest, program)


def _with_names(nest: LoopNest, program: Program) -> LoopNest:
    """Arguments and results of the canonical form called as the program calls them."""
    outer = iter([*(t.name for t in program.inputs), *program.outputs])
    fixed = [b for b in nest.buffers if b.role in (Role.INPUT, Role.OUTPUT)]
    names = dict(zip((b.name for b in fixed), outer, strict=True))
    return rename_buffers(nest, names)


def _for_c(nest: LoopNest) -> LoopNest:
    """The nest with arguments that may be called so in C."""
    return rename_buffers(
        nest, argument_names(b.name for b in nest.buffers if b.role in (Role.INPUT, Role.OUTPUT))
    )


def artifact(record: Record, kind: str, name: str | None = None) -> bytes:
    """``llvm`` and ``asm`` text, an ``object``, a shared ``library`` or its C ``header``.

    Object and library hold the function that the header declares, called ``name`` or like the program. Built
    anew from the record for its own target. Raises TunesmithError for an unknown kind and for a name that
    cannot be used, LinkError when the host cannot link.
    """
    target, nest = record.target, _nest(record)
    symbol = symbol_name(name or record.workload.name)
    if name and symbol != name:
        raise TunesmithError(f"no C function can be called {name!r} here; choose another name")
    match kind:
        case "llvm":
            text = llvm.optimised_ir(ir_text(nest, target), target.triple, target.cpu, target.features)
            return text.encode()
        case "asm":
            return llvm.assembly(ir_text(nest, target), target.triple, target.cpu, target.features).encode()
        case "object":
            text = library_ir(_for_c(nest), symbol, target)
            # Kernels that are linked into one program share no names but those of their headers.
            text = text.replace("define hidden void @", "define internal void @")
            return llvm.compile_ir(text, target.triple, target.cpu, target.features)
        case "library":
            return link_library(_for_c(nest), symbol, target)
        case "header":
            return header_text(_for_c(nest), symbol).encode()
    raise TunesmithError(f"no artifact {kind!r}; there are {', '.join(KINDS)}")


def describe(subject: Record | Program, level: str, target: Target | None = None) -> str:
    """Text of a program or record at a level: ``program schedule nest llvm asm record``.

    A program that was never tuned is shown with the schedule that the cost model would choose on ``target``.
    """
    if level not in LEVELS:
        raise TunesmithError(f"no level {level!r}; there are {', '.join(LEVELS)}")
    if isinstance(subject, Program):
        return _describe_program(subject, level, target)
    match level:
        case "program":
            return format_program(program_from_json(subject.workload.program))
        case "schedule":
            return f"{Schedule.from_json(subject.schedule)}\n"
        case "nest":
            return str(_nest(subject))
        case "record":
            return _describe_record(subject)
        case _:
            return artifact(subject, level).decode()


def _describe_program(program: Program, level: str, target: Target | None) -> str:
    if level == "program":
        return format_program(program)
    if level == "record" or target is None:
        raise TunesmithError(f"a program has no {level}: tune it first, or name a record")
    from tunesmith.tuning.guess import guess

    form = canonical(program)
    schedule, _ = guess(form, target)
    nest = _with_names(lower(form, schedule), program)
    match level:
        case "schedule":
            return f"{schedule}\n"
        case "nest":
            return str(nest)
        case "llvm":
            return llvm.optimised_ir(ir_text(nest, target), target.triple, target.cpu, target.features)
        case _:
            return llvm.assembly(ir_text(nest, target), target.triple, target.cpu, target.features)


def _describe_record(record: Record) -> str:
    m, t = record.measurement, record.target
    peak = t.peaks.f32_gflops if record.workload.dtype == "f32" else t.peaks.f64_gflops
    rows = [
        ("record", record.id),
        ("workload", f"{record.workload.name} ({record.workload.hash})"),
        ("target", f"{t.model}, {t.threads} thread(s) ({t.fingerprint})"),
        ("status", m.status.value + (f": {m.error}" if m.error else "")),
        ("trial, seed", f"{record.trial}, {record.seed}"),
        ("created", record.created_at.isoformat()),
        ("versions", ", ".join(f"{k} {v}" for k, v in record.versions.items())),
    ]
    if m.ok:
        rows += [
            ("time", f"{m.time_s * 1e6:.2f} µs (spread {m.spread:.1%}, {len(m.times_s)} samples)"),
            ("speed", f"{record.gflops:.1f} GFLOP/s, {record.gflops / (peak * t.threads):.1%} of the peak"),
            (
                "error",
                f"{m.max_error:.2e} of {m.tolerance:.2e} allowed"
                if m.max_error is not None and m.tolerance
                else "not stated",
            ),
        ]
    return "".join(f"{k:12} {v}\n" for k, v in rows)
