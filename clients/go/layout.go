package getid

import "time"

// Layout is which bits of an ID are the time, the worker id and the counter. The time is the highest field. All fields
// have at most 63 bits together.
type Layout struct {
	// Time is the width of the time in bits, 1 to 62.
	Time int
	// Worker is the width of the worker id in bits, 0 to 16.
	Worker int
	// Counter is the width of the counter in bits, 0 to 32.
	Counter int
	// UnitMs is the length of a unit of time in milliseconds, 1 to 60,000. 0 is 1.
	UnitMs int64
	// EpochMs is the time of the unit 0 in Unix milliseconds, 0 to 2^46.
	EpochMs int64
	// CounterFirst puts the counter above the worker id, as in Sonyflake.
	CounterFirst bool
}

// Layouts that are in wide use.
var (
	// Twitter has a time of 41 bits, worker 10, counter 12; since 2010-11-04, until 2080.
	Twitter = Layout{Time: 41, Worker: 10, Counter: 12, EpochMs: 1_288_834_974_657}
	// Snowflake is another name of Twitter.
	Snowflake = Twitter
	// Discord has a time of 41 bits, worker 10, counter 12; since 2015-01-01 UTC, until 2084.
	Discord = Layout{Time: 41, Worker: 10, Counter: 12, EpochMs: 1_420_070_400_000}
	// Keets has a time of 41 bits, worker 10, counter 12; since 2015-01-01 +08:00, until 2084.
	Keets = Layout{Time: 41, Worker: 10, Counter: 12, EpochMs: 1_420_041_600_000}
	// Icicle has a time of 41 bits, worker 10, counter 12; since 2016-02-18, until 2085.
	Icicle = Layout{Time: 41, Worker: 10, Counter: 12, EpochMs: 1_455_788_600_316}
	// Sonyflake has a time of 39 bits in units of 10 ms, counter 8, worker 16; since 2014-09-01 UTC, until 2188.
	Sonyflake = Layout{Time: 39, Worker: 16, Counter: 8, UnitMs: 10, EpochMs: 1_409_529_600_000, CounterFirst: true}
	// Sonyflake2 is Sonyflake since 2025-01-01 UTC, until 2199.
	Sonyflake2 = Layout{Time: 39, Worker: 16, Counter: 8, UnitMs: 10, EpochMs: 1_735_689_600_000, CounterFirst: true}
)

// Parts are the fields of an ID.
type Parts struct {
	// Time is the begin of the ID's unit of time, in UTC.
	Time time.Time
	// Worker is the worker id.
	Worker int64
	// Counter is the position inside the unit of time.
	Counter int64
}

// Parts returns the fields of an ID of this layout.
func (l Layout) Parts(id int64) Parts {
	l = l.normalized()
	low, high := l.Counter, l.Worker
	if l.CounterFirst {
		low, high = high, low
	}
	first, second := id>>low&(1<<high-1), id&(1<<low-1)
	unit := id >> (low + high)
	parts := Parts{Time: time.UnixMilli(l.EpochMs + unit*l.UnitMs).UTC(), Worker: first, Counter: second}
	if l.CounterFirst {
		parts.Worker, parts.Counter = second, first
	}
	return parts
}

func (l Layout) normalized() Layout {
	if l.UnitMs == 0 {
		l.UnitMs = 1
	}
	return l
}

func (l Layout) check() error {
	err := firstError(
		checkRange("Layout.Time", int64(l.Time), 1, 62),
		checkRange("Layout.Worker", int64(l.Worker), 0, 16),
		checkRange("Layout.Counter", int64(l.Counter), 0, 32),
		checkRange("Layout.UnitMs", l.UnitMs, 1, 60_000),
		checkRange("Layout.EpochMs", l.EpochMs, 0, 1<<46),
	)
	if bits := l.Time + l.Worker + l.Counter; err == nil && bits > 63 {
		return usageError("Layout.Time, Worker and Counter have %d bits together, must have at most 63", bits)
	}
	return err
}

// compose returns the ID of a unit of time since the epoch and a worker id, with the counter 0.
func (l Layout) compose(unit, worker int64) int64 {
	id := unit << (l.Worker + l.Counter)
	if l.CounterFirst {
		return id | worker
	}
	return id | worker<<l.Counter
}

// counterStep returns the difference of two IDs with consecutive counters.
func (l Layout) counterStep() int64 {
	if l.CounterFirst {
		return 1 << l.Worker
	}
	return 1
}

// unitOf returns the unit that has the Unix millisecond.
func (l Layout) unitOf(ms int64) int64 { return floorDiv(ms-l.EpochMs, l.UnitMs) }

// unitEndMs returns the last Unix millisecond of a unit.
func (l Layout) unitEndMs(unit int64) int64 { return l.EpochMs + (unit+1)*l.UnitMs - 1 }

func floorDiv(a, b int64) int64 {
	quotient := a / b
	if a%b < 0 {
		quotient--
	}
	return quotient
}
