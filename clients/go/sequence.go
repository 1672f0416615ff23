package getid

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"getid.local/client/internal/clock"
)

const (
	countMax        = 10_000_000
	prefetchFirst   = 16
	prefetchDefault = 10_000
	prefetchMax     = 10_000_000
	holdMin         = 10 * time.Millisecond
	holdMax         = 60 * time.Second
	horizonMin      = 100 * time.Millisecond
	durationsMax    = 8
	// checkEvery is the longest time for which calls read one clock only.
	checkEvery = int64(time.Millisecond)
)

// SequenceOption is an option of Client.Sequence.
type SequenceOption func(*sequenceOptions)

type sequenceOptions struct {
	prefetchMax int
	hold        time.Duration
	isFresh     bool
}

// WithPrefetchMax sets how many values are fetched ahead of the calls at most: 0 to 10,000,000, by default 10,000.
func WithPrefetchMax(n int) SequenceOption { return func(o *sequenceOptions) { o.prefetchMax = n } }

// WithHold sets how long after its request a value is used: 10 ms to 60 s, by default 60 s.
func WithHold(hold time.Duration) SequenceOption { return func(o *sequenceOptions) { o.hold = hold } }

// WithFresh lets a value serve only calls that were waiting when its request was sent. Such calls share a request. It
// is for serial numbers in the order of commits, and for timestamps.
func WithFresh() SequenceOption { return func(o *sequenceOptions) { o.isFresh = true } }

func (o sequenceOptions) check(name string) error {
	return firstError(
		checkName("name", name),
		checkRange("WithPrefetchMax", int64(o.prefetchMax), 0, prefetchMax),
		checkDuration("WithHold", o.hold, holdMin, holdMax),
	)
}

// SequenceStats are the counters of a sequence object.
type SequenceStats struct {
	// Values is the number of values that calls returned.
	Values int64
	// Fetches is the number of requests that brought values, Failures that of the others.
	Fetches, Failures int64
	// Dropped is the number of values that were fetched and never returned.
	Dropped int64
	// Waits is the number of calls that waited for the server.
	Waits int64
	// Held is the number of values in memory.
	Held int64
	// Prefetch is how many values are fetched ahead now.
	Prefetch int
	// Fetch is the shortest of the last eight fetches, 0 before the first.
	Fetch time.Duration
}

// Sequence is a local supply of values of one sequence, made by Client.Sequence. Each value comes once, and values
// ascend in this object. All methods may be called by several goroutines; a copy is the same object. A value that a
// program takes and does not use leaves a gap.
type Sequence struct {
	noSerialization
	state *sequence
	keep  *anchor
}

// Next returns the next value, in nearly all calls out of memory, also with a context that is done.
//
// It waits for the server until the deadline of ctx; without a deadline, for the client's time-out. Its errors are
// ErrUnavailable, ErrRefused, ErrClosed, ErrUsage, and context.Canceled. A call that ends early leaves no value behind:
// the request that is under way is read to its end, and serves later calls.
func (s *Sequence) Next(ctx context.Context) (int64, error) {
	if w := s.state.window.Load(); w != nil && w.clock.Mono() < w.checkAt {
		if taken := w.taken.Add(1); taken <= w.count {
			return w.next + (taken-1)*w.step, nil
		}
	}
	var dst [1]int64
	err := s.Take(ctx, dst[:])
	return dst[0], err
}

// Take fills dst with 1 to 1,000,000 values, ascending. Its errors are those of Next; after one, what dst has is not
// to be used.
func (s *Sequence) Take(ctx context.Context, dst []int64) error {
	defer runtime.KeepAlive(s.keep)
	return s.state.take(ctx, &waiter{dst: dst})
}

// TryNext returns the next value if one is in memory. It never waits, and starts the fetch. With WithFresh it has none
// ever, because a value serves only calls that wait for it.
func (s *Sequence) TryNext() (int64, bool) {
	defer runtime.KeepAlive(s.keep)
	return s.state.tryNext()
}

// WarmUp waits until n values, 1 to 1,000,000, are in memory. With WithFresh it does nothing. Its errors are those of
// Next.
func (s *Sequence) WarmUp(ctx context.Context, n int) error {
	defer runtime.KeepAlive(s.keep)
	return s.state.take(ctx, &waiter{need: n, isWarmUp: true})
}

// Stats returns the counters of this object.
func (s *Sequence) Stats() SequenceStats {
	q := s.state
	q.core.mu.Lock()
	defer q.core.mu.Unlock()
	q.arm()
	stats := q.stats
	stats.Values, stats.Failures, stats.Held, stats.Prefetch = q.values, q.failures, q.held(), q.prefetch
	stats.Fetch = time.Duration(q.shortest())
	return stats
}

// Err returns the ErrUsage of the arguments of Client.Sequence, or nil.
func (s *Sequence) Err() error { return s.state.usage }

// String returns the name of the sequence.
func (s *Sequence) String() string { return s.state.subject }

// segment is a range of values that a reply brought, and when its request was sent by both clocks.
type segment struct {
	next, step int64
	left, size int64
	sent, wall int64
}

// window is the part of the first segment of which almost every call takes a value without the lock. These calls have
// nothing else to do until all values are taken, or until checkAt.
type window struct {
	taken      atomic.Int64
	next, step int64
	count      int64
	checkAt    int64
	clock      *clock.Clock
}

// windowClosed is a number of taken values that no window has.
const windowClosed = 1 << 62

// sequence is the state of a Sequence. Values ascend, and no segment is used longer than the hold. What changes the
// segments calls settle first, and arm at its end.
type sequence struct {
	source
	window atomic.Pointer[window]
	clock  *clock.Clock
	values int64

	options     sequenceOptions
	prefetchMax int
	segments    []*segment // at most two, and those that calls of WarmUp have added
	wallSeen    int64
	checkedAt   int64 // monotonic time at which the clocks were compared
	prefetch    int
	hasSent     bool
	lastSent    int64
	isSized     bool
	isWanted    bool
	durations   []int64
	newest      int64 // or -1
	serial      uint64
	isAboveDue  bool
	droppedWait time.Duration
	stats       SequenceStats

	// Of the job under way.
	count      int
	sent, wall int64
	jobSerial  uint64
}

func newSequence(c *core, name string, o sequenceOptions) *sequence {
	q := &sequence{source: makeSource(c, "sequence", name), clock: c.clock, options: o, prefetchMax: o.prefetchMax,
		newest: -1, wallSeen: never, droppedWait: backoffFirst}
	if o.isFresh {
		q.prefetchMax = 0
	}
	q.prefetch = smaller(prefetchFirst, q.prefetchMax)
	q.self = q
	return q
}

// Calls.

func (q *sequence) take(ctx context.Context, w *waiter) error {
	count := len(w.dst)
	if w.isWarmUp {
		count = w.need
	}
	if err := checkRange("number of values", int64(count), 1, takeMax); err != nil {
		return err
	}
	began, limit := time.Now(), q.limitOf(ctx)
	isQueued, isDue, err := q.start(w)
	if isQueued {
		return q.wait(ctx, w, began, limit)
	}
	if isDue {
		q.core.kick()
	}
	return err
}

// start takes values out of memory, and queues the call if there are too few. It returns whether a job is due.
func (q *sequence) start(w *waiter) (isQueued, isDue bool, err error) {
	q.core.mu.Lock()
	defer q.core.mu.Unlock()
	if err := q.check(); err != nil {
		return false, false, err
	}
	defer q.arm()
	q.checkAges()
	isDone := false
	if w.isWarmUp {
		isDone = q.options.isFresh || q.held() >= int64(w.need)
	} else {
		if !q.hasCalls() {
			q.fill(w)
		}
		isDone = w.missing() == 0
	}
	if isDone {
		return false, q.position >= 0, nil
	}
	if err := q.enqueue(w); err != nil {
		q.lose(w)
		return false, false, err
	}
	if !w.isWarmUp {
		q.stats.Waits++
	}
	q.want()
	return true, true, nil
}

func (q *sequence) tryNext() (int64, bool) {
	var dst [1]int64
	w := &waiter{dst: dst[:]}
	q.core.mu.Lock()
	if q.check() != nil {
		q.core.mu.Unlock()
		return 0, false
	}
	q.checkAges()
	q.fill(w)
	if w.filled == 0 && !q.options.isFresh {
		q.isWanted = true
		q.want()
	}
	q.arm()
	isDue := q.position >= 0
	q.core.mu.Unlock()
	if isDue {
		q.core.kick()
	}
	return dst[0], w.filled == 1
}

func (q *sequence) hasCalls() bool {
	for _, w := range q.waiters {
		if !w.isWarmUp {
			return true
		}
	}
	return false
}

// fill moves values from the segments to a call. It starts a fetch where few are left.
func (q *sequence) fill(w *waiter) {
	for w.missing() > 0 && len(q.segments) > 0 {
		one := q.segments[0]
		if w.filled == 0 {
			w.sent, w.wall = one.sent, one.wall
		}
		n := smaller(w.missing(), int(one.left))
		for i := 0; i < n; i++ {
			w.dst[w.filled] = one.next
			w.filled++
			one.next += one.step
		}
		one.left -= int64(n)
		q.values += int64(n)
		q.settle()
	}
	if q.prefetchMax > 0 && q.isLow() && w.filled > 0 {
		q.want()
	}
}

func (q *sequence) isLow() bool {
	return len(q.segments) == 0 || len(q.segments) == 1 && q.segments[0].left*2 <= q.segments[0].size
}

func (q *sequence) want() {
	if !q.isAsking() {
		q.core.schedule(q, larger(q.clock.Mono(), q.retryAt))
	}
}

func (q *sequence) held() (count int64) {
	for _, one := range q.segments {
		count += one.left
	}
	return count
}

// lose drops the values of a call that ended, or that holds them for too long.
func (q *sequence) lose(w *waiter) {
	q.values -= int64(w.filled)
	q.stats.Dropped += int64(w.filled)
	w.filled = 0
}

// Segments.

// settle closes the window, and moves what calls took of it into the first segment.
func (q *sequence) settle() {
	if w := q.window.Swap(nil); w != nil {
		taken := w.taken.Swap(windowClosed)
		if taken > w.count {
			taken = w.count
		}
		first := q.segments[0]
		first.next += taken * first.step
		first.left -= taken
		q.values += taken
	}
	if len(q.segments) > 0 && q.segments[0].left == 0 {
		q.segments = q.segments[1:]
	}
}

// arm opens a window.
func (q *sequence) arm() {
	q.settle()
	if len(q.segments) == 0 || q.core.isClosed || q.hasCalls() {
		return
	}
	first := q.segments[0]
	w := &window{next: first.next, step: first.step, count: first.left, clock: q.clock}
	if !q.isAsking() && len(q.segments) == 1 && q.prefetchMax > 0 {
		w.count = first.left - first.size/2 - 1
	}
	w.checkAt = q.checkedAt + checkEvery
	if end := first.sent + int64(q.options.hold); end < w.checkAt {
		w.checkAt = end
	}
	if w.count > 0 {
		q.window.Store(w)
	}
}

// checkAges drops segments that are too old by either clock, and all of them if the wall clock went back.
func (q *sequence) checkAges() {
	q.settle()
	mono, wall := q.clock.Mono(), q.clock.Wall()
	isBack := wall < q.wallSeen
	q.wallSeen, q.checkedAt = wall, mono
	for len(q.segments) > 0 && (isBack || q.isOld(q.segments[0].sent, q.segments[0].wall, mono, wall)) {
		q.stats.Dropped += q.segments[0].left
		q.segments = q.segments[1:]
	}
}

func (q *sequence) isOld(sent, sentWall, mono, wall int64) bool {
	return larger(mono-sent, wall-sentWall) >= int64(q.options.hold)
}

func (q *sequence) forget() {
	q.settle()
	q.stats.Dropped += q.held()
	q.segments = nil
	q.isWanted = false
	for _, w := range q.waiters {
		w.isSent = false
		q.lose(w)
	}
}

func (q *sequence) stop() [][]string {
	q.forget()
	return nil
}

// Jobs.

func (q *sequence) failureEvent() EventKind { return FetchFailed }

func (q *sequence) isNeeded() bool { return false }

func (q *sequence) refuse(*serverError) bool { return false }

func (q *sequence) retryDelay(delay time.Duration, _ bool) time.Duration { return delay }

func (q *sequence) begin(serial uint64) []string {
	q.checkAges()
	if q.count = q.wantedCount(); q.count == 0 {
		return nil
	}
	q.sent, q.wall, q.jobSerial = q.clock.Mono(), q.clock.Wall(), serial
	for _, w := range q.waiters {
		w.isSent = true
	}
	request := []string{"SEQUENCE", "NEXT", q.name, "COUNT", strconv.Itoa(q.count)}
	if q.newest >= 0 && (serial != q.serial || q.isAboveDue) {
		request = append(request, "ABOVE", strconv.FormatInt(q.newest, 10))
	}
	return request
}

func (q *sequence) wantedCount() int {
	missing, warmUp := 0, 0
	for _, w := range q.waiters {
		if w.isWarmUp {
			warmUp = int(larger(int64(warmUp), int64(w.need)))
		} else {
			missing = smaller(missing+w.missing(), countMax)
		}
	}
	count := missing
	if q.prefetchMax > 0 && (missing > 0 || q.isLow()) {
		q.sizePrefetch()
		count += q.prefetch
	}
	if q.isWanted && len(q.segments) == 0 && count == 0 {
		count = 1
	}
	if lacking := missing + warmUp - int(q.held()); lacking > count && warmUp > 0 {
		count = lacking
	}
	return smaller(count, countMax)
}

// sizePrefetch doubles the prefetch if fetches follow each other soon, and halves it if they do not.
func (q *sequence) sizePrefetch() {
	if !q.hasSent || q.isSized {
		return
	}
	q.isSized = true
	horizon := larger(int64(horizonMin), 8*q.shortest())
	since := q.clock.Mono() - q.lastSent
	switch {
	case since < horizon:
		q.prefetch = smaller(2*q.prefetch, q.prefetchMax)
	case since > 4*horizon:
		q.prefetch = int(larger(int64(q.prefetch/2), 1))
	}
}

// shortest returns the shortest of the last fetches, or 0.
func (q *sequence) shortest() int64 {
	if len(q.durations) == 0 {
		return 0
	}
	least := int64(math.MaxInt64)
	for _, duration := range q.durations {
		if duration < least {
			least = duration
		}
	}
	return least
}

func (q *sequence) apply(reply any) error {
	got, err := q.parse(reply)
	if err != nil {
		return err
	}
	q.succeeded()
	q.checkAges()
	q.noteFetch()
	received := got.left
	isKnown := !q.skipKnown(&got)
	mono, wall := q.clock.Mono(), q.clock.Wall()
	isOld := q.isOld(got.sent, got.wall, mono, wall) || wall < got.wall
	if isOld {
		got.left = 0
		took := time.Duration(larger(mono-got.sent, wall-got.wall))
		q.lastFailure = fmt.Sprintf("a fetch took %v, and its values are held for %v: set a longer WithHold", took,
			q.options.hold)
	}
	q.stats.Dropped += received - got.left
	if got.left > 0 {
		got.size = got.left
		q.droppedWait = backoffFirst
		q.segments = append(q.segments, &got)
	}
	q.serve(mono, wall)
	q.isAboveDue = isKnown
	if isKnown || isOld {
		q.retryAt = mono + int64(q.droppedWait)
		q.droppedWait = shorter(2*q.droppedWait, backoffLast)
	}
	if len(q.waiters) > 0 {
		q.core.schedule(q, larger(mono, q.retryAt))
	}
	return nil
}

func (q *sequence) noteFetch() {
	q.durations = append(q.durations, larger(q.clock.Mono()-q.sent, 0))
	if len(q.durations) > durationsMax {
		q.durations = q.durations[1:]
	}
	q.hasSent, q.lastSent, q.isSized, q.isWanted = true, q.sent, false, false
	q.stats.Fetches++
	q.serial, q.isAboveDue = q.jobSerial, false
}

// skipKnown drops values of a range that are not above the newest one. It returns whether any are left.
func (q *sequence) skipKnown(got *segment) bool {
	if got.next <= q.newest {
		skipped := larger((q.newest-got.next)/got.step+1, 0)
		if skipped >= got.left {
			got.left = 0
			return false
		}
		got.next += skipped * got.step
		got.left -= skipped
	}
	q.newest = got.next + (got.left-1)*got.step
	return true
}

// serve gives values to the calls that wait, in their order, and keeps the others.
func (q *sequence) serve(mono, wall int64) {
	waiting := q.waiters
	q.waiters = nil
	for _, w := range waiting {
		if q.isServed(w, mono, wall) {
			w.finish(nil)
		} else {
			q.waiters = append(q.waiters, w)
		}
	}
	if q.options.isFresh {
		q.stats.Dropped += q.held()
		q.segments = nil
	}
}

func (q *sequence) isServed(w *waiter, mono, wall int64) bool {
	if w.isWarmUp {
		return q.held() >= int64(w.need)
	}
	if q.options.isFresh && !w.isSent {
		return false
	}
	if w.filled > 0 && q.isOld(w.sent, w.wall, mono, wall) {
		q.lose(w)
	}
	q.fill(w)
	return w.missing() == 0
}

func (q *sequence) parse(reply any) (segment, error) {
	if parts, isArray := reply.([]any); isArray && len(parts) == 3 {
		first, isFirst := parts[0].(int64)
		last, isLast := parts[1].(int64)
		step, isStep := parts[2].(int64)
		isRange := isFirst && isLast && isStep && 0 <= first && first <= last && step >= 1 && (last-first)%step == 0
		if isRange && (last-first)/step < int64(q.count) {
			size := (last-first)/step + 1
			return segment{next: first, step: step, left: size, size: size, sent: q.sent, wall: q.wall}, nil
		}
	}
	return segment{}, fmt.Errorf("%w to SEQUENCE NEXT %s COUNT %d: %.100s", errForm, q.name, q.count, fmt.Sprint(reply))
}

func smaller(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func larger(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
