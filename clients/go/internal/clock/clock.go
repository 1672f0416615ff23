// Package clock reads the wall clock and the monotonic clock, both movable by tests.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clock is the machine's clock plus distances that a test adds. A frozen clock moves by Shift alone.
type Clock struct {
	base       time.Time
	isFrozen   bool
	wall, mono atomic.Int64

	mu       sync.Mutex
	watchers []func()
}

// Option makes an option of getid.New from a clock. Package getid sets it.
var Option func(*Clock) any

// New returns a clock that shows the machine's time.
func New() *Clock {
	return &Clock{base: time.Now()}
}

// NewFrozen returns a clock that stands still at the given Unix milliseconds.
func NewFrozen(wallMs int64) *Clock {
	return &Clock{base: time.UnixMilli(wallMs), isFrozen: true}
}

// Mono returns monotonic nanoseconds since the clock was made.
func (k *Clock) Mono() int64 {
	if k.isFrozen {
		return k.mono.Load()
	}
	return int64(time.Since(k.base)) + k.mono.Load()
}

// Wall returns Unix nanoseconds.
func (k *Clock) Wall() int64 {
	if k.isFrozen {
		return k.base.UnixNano() + k.wall.Load()
	}
	return time.Now().UnixNano() + k.wall.Load()
}

// Shift adds distances to the two clocks, and calls the watchers.
func (k *Clock) Shift(wall, mono time.Duration) {
	k.wall.Add(int64(wall))
	k.mono.Add(int64(mono))
	k.mu.Lock()
	watchers := k.watchers
	k.mu.Unlock()
	for _, moved := range watchers {
		moved()
	}
}

// Watch calls moved after each Shift.
func (k *Clock) Watch(moved func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watchers = append(k.watchers, moved)
}
