"""Who asks, what they may do, and how often."""

from tunesmith.service.auth.gate import Gate
from tunesmith.service.auth.principal import LOCAL, Principal
from tunesmith.service.auth.scopes import needed_scope

__all__ = ["LOCAL", "Gate", "Principal", "needed_scope"]
