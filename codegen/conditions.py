"""Conditions on loop variables: decided while emitting, branched on, or masks over lanes."""

from tunesmith.codegen.context import Context
from tunesmith.ir.affine import Affine

__all__ = ["Conditions"]

_FAR = 1 << 30


class Conditions:
    """``form >= 0`` for every form, sorted by how it is found out.

    ``never``: some form is negative whatever happens; ``plain``: one answer for all lanes; ``lane``: an
    answer a lane. Forms that always hold are gone.
    """

    def __init__(self, context: Context, forms: tuple[Affine, ...]) -> None:
        self.at = context
        self.plain: list[Affine] = []
        self.lane: list[Affine] = []
        self.never = False
        for form in map(context.resolved, forms):
            if not form.terms:
                self.never = self.never or form.const < 0
            elif context.depends_on_lane(form):
                self.lane.append(form)
            else:
                self.plain.append(form)

    @property
    def always(self) -> bool:
        return not (self.never or self.plain or self.lane)

    def truth(self) -> str:
        """Whether all of the plain ones hold, as an i1."""
        f, result = self.at.f, ""
        for form in self.plain:
            one = f.emit(f"icmp sge i64 {self.at.integer(form)}, 0")
            result = f.emit(f"and i1 {result}, {one}") if result else one
        return result

    def mask(self) -> str:
        """Lanes where all of the others hold, computed at the innermost loop that they depend on."""
        lane = self.at.lane
        assert lane is not None and self.lane
        result: str | None = None
        for form in self.lane:
            level = self.at.level_of(form)
            key = ("mask", form, lane.lanes)
            if key not in level.memo:
                with self.at.hoisting(level):
                    level.memo[key] = self._compare_lanes(form)
            result = self.within(result, level.memo[key])
        assert result is not None
        return result

    def within(self, outer: str | None, mask: str) -> str:
        """Lanes that are on in both."""
        if outer is None:
            return mask
        assert self.at.lane is not None
        return self.at.f.emit(f"and <{self.at.lane.lanes} x i1> {outer}, {mask}")

    def _compare_lanes(self, form: Affine) -> str:
        lane, f = self.at.lane, self.at.f
        assert lane is not None
        lanes, step = lane.lanes, form.coefficient(lane.var)
        base, bits = self.at.integer(form), 64
        if abs(step) * lanes < _FAR:  # exact in half the bits, all that is farther off held at a distance
            base = f.emit(f"call i64 @llvm.smax.i64(i64 {base}, i64 {-_FAR})")
            base, bits = f.emit(f"trunc i64 {self.at.minimum(base, str(_FAR))} to i32"), 32
        kind = f"<{lanes} x i{bits}>"
        one = f.emit(f"insertelement {kind} poison, i{bits} {base}, i64 0")
        bases = f.emit(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")
        steps = ", ".join(f"i{bits} {i * step}" for i in range(lanes))
        values = f.emit(f"add {kind} {bases}, <{steps}>")
        return f.emit(f"icmp sge {kind} {values}, zeroinitializer")
