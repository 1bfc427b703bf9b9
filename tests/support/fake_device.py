"""Device that works later than it is told, as a GPU does."""

from __future__ import annotations

from dataclasses import dataclass

#: Seconds that a launch takes on the host.
LAUNCH = 1e-5


@dataclass
class FakeDevice:
    """Device with one queue.

    Attributes
    ----------
    host
        Present time of the host, in seconds.
    busy_until
        Time at which all that was launched is done.
    """

    host: float = 0.0
    busy_until: float = 0.0

    def launch(self, seconds: float) -> None:
        """Launch work of some seconds; the host goes on at once."""
        self.host += LAUNCH
        self.busy_until = max(self.busy_until, self.host) + seconds

    def synchronise(self) -> None:
        """Let the host wait for all that was launched."""
        self.host = max(self.host, self.busy_until)


@dataclass
class FakeClock:
    """Clock of such a device."""

    device: FakeDevice

    def mark(self) -> float:
        """Return when all that was launched so far is done."""
        return max(self.device.host, self.device.busy_until)

    def reached(self, mark: float) -> bool:
        """Return whether that is now."""
        return mark <= self.device.host

    def seconds(self, begin: float, end: float) -> float:
        """Return the seconds between two marks; the host waits for them."""
        self.device.host = max(self.device.host, end)
        return end - begin
