package getid

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"getid.local/client/internal/clock"
)

const (
	holderBytesMax = 64
	leaseRetry     = time.Second
	leaseRetryMax  = 30 * time.Second
	// renewPause is the shortest time between two renewals.
	renewPause = int64(time.Second)
	// jumpMin is how far the two clocks move apart before a renewal is due at once.
	jumpMin = int64(time.Second)
	ttlMax  = 24 * time.Hour
	// chunk is how many IDs Take makes under the lock in one piece.
	chunk = 1000
	// releaseLength is the length of a RELEASE without LAST.
	releaseLength = 5
	millisecond   = int64(time.Millisecond)
)

// WorkerOption is an option of Client.Worker.
type WorkerOption func(*workerOptions)

type workerOptions struct {
	layout Layout
	name   string
	ttl    time.Duration
}

// WithName sets the name of the holder, by which a program gets its last worker id back; by default the host's name.
func WithName(name string) WorkerOption { return func(o *workerOptions) { o.name = name } }

// WithTTL sets the length of the lease in whole seconds: 1 s to 24 h, by default that of the pool.
func WithTTL(ttl time.Duration) WorkerOption { return func(o *workerOptions) { o.ttl = ttl } }

func (o workerOptions) check(pool string) error {
	err := firstError(checkName("pool", pool), o.layout.check())
	if err == nil && o.ttl != 0 {
		err = checkDuration("WithTTL", o.ttl, time.Second, ttlMax)
	}
	if err == nil && o.ttl%time.Second != 0 {
		err = usageError("WithTTL is %v, must be whole seconds", o.ttl)
	}
	return err
}

// WorkerStats are the counters of a worker object.
type WorkerStats struct {
	// Values is the number of IDs that calls returned.
	Values int64
	// WorkerID is the leased worker id, or -1.
	WorkerID int64
	// NotBeforeMs and NotAfterMs are the begin and the end of the lease in Unix milliseconds, or 0.
	NotBeforeMs, NotAfterMs int64
	// Leases, Renewals and Failures are the numbers of replies of each kind.
	Leases, Renewals, Failures int64
	// ClockAheadMs is how far the clock is past the end of the lease, or 0.
	ClockAheadMs int64
}

// Worker makes IDs with a leased worker id, made by Client.Worker. IDs are unique over all programs that lease from the
// pool, and ascend in this object. All methods may be called by several goroutines; a copy is the same object.
type Worker struct {
	noSerialization
	state *worker
	keep  *anchor
}

// Next returns the next ID, in nearly all calls made in process, also with a context that is done.
//
// It waits for the server until the deadline of ctx; without a deadline, for the client's time-out. Its errors are
// ErrUnavailable, ErrRefused, ErrClock, ErrClosed, ErrUsage, and context.Canceled.
func (w *Worker) Next(ctx context.Context) (int64, error) {
	s := w.state
	s.core.mu.Lock()
	if s.counter < s.counterMax && s.clock.Mono() < s.checkAt {
		s.counter++
		s.stats.Values++
		id := s.base + s.counter*s.counterStep
		s.core.mu.Unlock()
		return id, nil
	}
	s.core.mu.Unlock()
	var dst [1]int64
	err := w.Take(ctx, dst[:])
	return dst[0], err
}

// Take fills dst with 1 to 1,000,000 IDs, ascending. Its errors are those of Next; after one, what dst has is not to be
// used.
func (w *Worker) Take(ctx context.Context, dst []int64) error {
	defer runtime.KeepAlive(w.keep)
	if err := checkRange("number of values", int64(len(dst)), 1, takeMax); err != nil {
		return err
	}
	return w.state.take(ctx, dst)
}

// TryNext returns the next ID if it can be made at once. It never waits, and starts the lease.
func (w *Worker) TryNext() (int64, bool) {
	defer runtime.KeepAlive(w.keep)
	return w.state.tryNext()
}

// WarmUp waits until the worker id is leased. The number, 1 to 1,000,000, has no meaning for a worker. Its errors are
// those of Next.
func (w *Worker) WarmUp(ctx context.Context, n int) error {
	defer runtime.KeepAlive(w.keep)
	if err := checkRange("number of values", int64(n), 1, takeMax); err != nil {
		return err
	}
	return w.state.warmUp(ctx)
}

// Stats returns the counters of this object.
func (w *Worker) Stats() WorkerStats {
	s := w.state
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	stats := s.stats
	stats.WorkerID, stats.Failures = -1, s.failures
	if s.lease != nil {
		stats.WorkerID, stats.NotBeforeMs, stats.NotAfterMs = s.lease.id, s.lease.notBefore, s.lease.notAfter
	}
	return stats
}

// Err returns the ErrUsage of the arguments of Client.Worker, or nil.
func (w *Worker) Err() error { return w.state.usage }

// String returns the name of the pool.
func (w *Worker) String() string { return w.state.subject }

// lease is a leased worker id and its interval of Unix milliseconds.
type lease struct {
	id                  int64
	token               string
	notBefore, notAfter int64
	// givenEnd is the end that a reply gave by the server's clock, not for a LAST by this machine's clock.
	givenEnd int64
	lengthMs int64
	isUsed   bool
	isLost   bool
}

type workerJob int

const (
	jobLease workerJob = iota
	jobRenew
	jobRelease
)

// worker is the state of a Worker.
//
// An ID is made only in a unit of time of which the lease covers each millisecond, so two holders of one worker id
// never make the same ID, whatever their clocks show. Almost every call counts up inside the millisecond that was last
// checked.
type worker struct {
	source
	clock       *clock.Clock
	counter     int64
	counterMax  int64
	counterStep int64
	base        int64 // ID of the unit with the counter 0
	checkAt     int64 // monotonic end of the millisecond
	stats       WorkerStats

	options    workerOptions
	layout     Layout
	holder     string
	lease      *lease
	unfit      *lease // to release, as its id does not fit the layout
	unit       int64
	newest     int64 // unit of the newest ID, or -1
	endUnit    int64
	hasDrift   bool
	drift      int64 // wall clock minus monotonic clock
	isWanted   bool
	isLastReal bool // the next renewal sends the real LAST
	triedAt    int64
	leaseDelay time.Duration

	// Of the job under way.
	job     workerJob
	sent    int64
	isAhead bool // it sent a LAST by this machine's clock
}

func newWorker(c *core, pool string, o workerOptions) *worker {
	s := &worker{source: makeSource(c, "worker pool", pool), clock: c.clock, options: o, layout: o.layout,
		counterMax: 1<<o.layout.Counter - 1, counterStep: o.layout.counterStep(), checkAt: never, unit: -1, newest: -1,
		triedAt: never, leaseDelay: leaseRetry, holder: holderName(o.name)}
	s.self = s
	return s
}

// holderName returns the name of a holder as the server takes it: at most 64 bytes of printable ASCII, or none.
func holderName(name string) string {
	if name == "" {
		name, _ = os.Hostname()
	}
	cleaned := []byte(name)
	for i, c := range cleaned {
		if c < '!' || c > '~' {
			cleaned[i] = '_'
		}
	}
	if len(cleaned) <= holderBytesMax {
		return string(cleaned)
	}
	sum := sha256.Sum256([]byte(name))
	return string(cleaned[:55]) + "-" + hex.EncodeToString(sum[:4])
}

// Calls.

func (s *worker) take(ctx context.Context, dst []int64) error {
	began, limit := time.Now(), s.limitOf(ctx)
	for filled := 0; filled < len(dst); {
		n, w, isDue, err := s.draw(dst[filled:smaller(filled+chunk, len(dst))])
		filled += n
		if err == nil && w != nil {
			err = s.wait(ctx, w, began, limit)
		} else if isDue {
			s.core.kick()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// draw makes IDs, and queues the call if one cannot be made now. It returns whether a job is due.
func (s *worker) draw(dst []int64) (n int, w *waiter, isDue bool, err error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if err := s.check(); err != nil {
		return 0, nil, false, err
	}
	for ; n < len(dst); n++ {
		id, isMade, err := s.make()
		if err != nil {
			return n, nil, false, err
		}
		if !isMade {
			w = &waiter{}
			return n, w, true, s.enqueue(w)
		}
		dst[n] = id
	}
	return n, nil, s.isDue(), nil
}

func (s *worker) isDue() bool { return s.position >= 0 && s.due <= s.clock.Mono() }

func (s *worker) tryNext() (int64, bool) {
	s.core.mu.Lock()
	if s.check() != nil {
		s.core.mu.Unlock()
		return 0, false
	}
	id, isMade, _ := s.make()
	isDue := s.position >= 0
	s.core.mu.Unlock()
	if isDue {
		s.core.kick()
	}
	return id, isMade
}

func (s *worker) warmUp(ctx context.Context) error {
	began, limit := time.Now(), s.limitOf(ctx)
	w := &waiter{isWarmUp: true}
	s.core.mu.Lock()
	err := s.check()
	isLeased := s.lease != nil
	if err == nil && !isLeased {
		if err = s.enqueue(w); err == nil {
			s.want()
		}
	}
	s.core.mu.Unlock()
	if err != nil || isLeased {
		return err
	}
	return s.wait(ctx, w, began, limit)
}

// make returns an ID, or false if the lease covers no further unit. It starts what is due.
func (s *worker) make() (id int64, isMade bool, err error) {
	if s.lease == nil {
		s.want()
		return 0, false, nil
	}
	mono, wall := s.clock.Mono(), s.clock.Wall()
	if mono >= s.checkAt {
		s.checkClocks(mono, wall)
	}
	unit, counter := s.layout.unitOf(floorDiv(wall, millisecond)), int64(0)
	if unit <= s.unit {
		unit, counter = s.unit, s.counter+1
		if counter > s.counterMax {
			unit, counter = unit+1, 0
		}
	}
	if unit >= s.endUnit {
		s.checkAt = never
		if unit >= 1<<s.layout.Time {
			return 0, false, s.rangeError()
		}
		s.want()
		return 0, false, nil
	}
	if unit != s.unit {
		s.base = s.layout.compose(unit, s.lease.id)
	}
	s.unit, s.newest, s.counter = unit, unit, counter
	s.checkAt = mono + millisecond - wall%millisecond
	s.lease.isUsed = true
	s.stats.Values++
	s.stats.ClockAheadMs = 0
	return s.base + counter*s.counterStep, true, nil
}

func (s *worker) rangeError() error {
	text := s.subject + ": the time of the layout ended: take one with a later epoch or more bits of time"
	return &Error{Kind: ErrRefused, text: text}
}

// checkClocks makes a renewal due at once if the wall clock was set.
func (s *worker) checkClocks(mono, wall int64) {
	drift := wall - mono
	moved := drift - s.drift
	if s.hasDrift && moved <= jumpMin && moved >= -jumpMin {
		return
	}
	if s.hasDrift && s.canRenew() && !s.hasJob {
		s.core.schedule(s, larger(mono, s.triedAt+renewPause))
	}
	s.hasDrift, s.drift = true, drift
}

// want starts the lease or renewal without which no ID can be made.
func (s *worker) want() {
	s.isWanted = true
	if s.hasJob {
		return
	}
	due := larger(s.clock.Mono(), s.retryAt)
	if s.canRenew() {
		due = larger(due, s.triedAt+renewPause)
	}
	if s.position < 0 || s.due > due {
		s.core.schedule(s, due)
	}
}

func (s *worker) wantNow() { s.core.schedule(s, s.clock.Mono()) }

// isRenewing reports whether the job is a renewal, also where its connect failed.
func (s *worker) isRenewing() bool { return s.unfit == nil && s.canRenew() }

func (s *worker) canRenew() bool { return s.lease != nil && !s.lease.isLost }

// last returns LAST: the last millisecond of the newest ID's unit.
func (s *worker) last() int64 {
	if s.lease.isUsed {
		return s.layout.unitEndMs(s.newest)
	}
	return s.lease.notBefore - 1
}

func (s *worker) arm() {}

func (s *worker) forget() {
	s.lease, s.unfit = nil, nil
	s.checkAt, s.triedAt = never, never
	s.isLastReal, s.hasDrift, s.isWanted = false, false, false
}

func (s *worker) stop() (requests [][]string) {
	if s.canRenew() {
		requests = append(requests, s.releaseOf(s.lease, s.last()))
	}
	if s.unfit != nil {
		requests = append(requests, s.releaseOf(s.unfit, s.unfit.notBefore-1))
	}
	s.forget()
	return requests
}

func (s *worker) releaseOf(l *lease, last int64) []string {
	return s.requestOf("RELEASE", l, last)
}

func (s *worker) requestOf(verb string, l *lease, last int64) []string {
	id, end := strconv.FormatInt(l.id, 10), strconv.FormatInt(larger(last, 0), 10)
	return []string{"WORKERID", verb, s.name, id, l.token, "LAST", end}
}

// Jobs.

func (s *worker) failureEvent() EventKind {
	if s.isRenewing() {
		return RenewFailed
	}
	return FetchFailed
}

// isNeeded reports whether the lease still has time, so that a failed renewal is tried again.
func (s *worker) isNeeded() bool { return s.canRenew() && s.nowMs() < s.lease.notAfter }

func (s *worker) nowMs() int64 { return floorDiv(s.clock.Wall(), millisecond) }

func (s *worker) retryDelay(delay time.Duration, canLose bool) time.Duration {
	switch {
	case s.job == jobLease && canLose:
		delay = s.leaseDelay
		s.leaseDelay = shorter(2*s.leaseDelay, leaseRetryMax)
	case s.isRenewing():
		delay = time.Duration(larger(int64(delay), s.triedAt+renewPause-s.clock.Mono()))
	}
	return delay
}

func (s *worker) begin(uint64) []string {
	s.sent = s.clock.Mono()
	switch {
	case s.unfit != nil:
		s.job = jobRelease
		return s.releaseOf(s.unfit, s.unfit.notBefore-1)
	case s.isRenewing():
		return s.beginRenewal()
	case len(s.waiters) == 0 && !s.isWanted:
		return nil
	}
	s.job = jobLease
	request := []string{"WORKERID", "LEASE", s.name}
	if s.holder != "" {
		request = append(request, "NAME", s.holder)
	}
	if s.options.ttl > 0 {
		request = append(request, "TTL", strconv.FormatInt(int64(s.options.ttl/time.Second), 10))
	}
	return request
}

func (s *worker) beginRenewal() []string {
	s.job, s.triedAt = jobRenew, s.sent
	last, now := s.last(), s.nowMs()
	s.isAhead = now >= s.lease.notAfter && now-1 > last && !s.isLastReal
	s.isLastReal = false
	if s.isAhead {
		last = now - 1
	}
	return s.requestOf("RENEW", s.lease, last)
}

func (s *worker) apply(reply any) error {
	switch s.job {
	case jobRelease:
		return s.applyRelease(reply)
	case jobRenew:
		return s.applyRenewal(reply)
	}
	return s.applyLease(reply)
}

func (s *worker) applyRelease(reply any) error {
	if reply != status("OK") {
		return fmt.Errorf("%w to WORKERID RELEASE: %.100s", errForm, fmt.Sprint(reply))
	}
	s.unfit = nil
	s.succeeded()
	s.core.event(Event{Kind: Released, Object: s.name})
	if len(s.waiters) > 0 {
		s.wantNow()
	}
	return nil
}

func (s *worker) applyLease(reply any) error {
	got, err := parseLease(reply)
	if err != nil {
		return err
	}
	s.succeeded()
	s.leaseDelay = leaseRetry
	s.isWanted = false
	if got.id >= 1<<s.layout.Worker {
		s.refuseUnfit(got)
		return nil
	}
	s.lease = got
	s.stats.Leases++
	first := larger(0, s.layout.unitOf(got.notBefore+s.layout.UnitMs-1))
	s.unit, s.counter = larger(s.newest, first-1), s.counterMax
	s.triedAt, s.hasDrift = never, false
	s.setEnd()
	s.core.event(Event{Kind: Leased, Object: s.name})
	s.scheduleRenewal()
	if s.nowMs() >= got.notAfter {
		s.wantNow()
	} else {
		s.finishAll(nil)
	}
	return nil
}

func (s *worker) refuseUnfit(got *lease) {
	s.lease, s.unfit = nil, got
	s.checkAt = never
	bits := s.layout.Worker
	text := fmt.Sprintf("%s: worker id %d does not fit the %d bits of the layout: set 'worker-pool %s size %d' on the "+
		"server, or take a layout with more bits", s.subject, got.id, bits, s.name, 1<<bits)
	s.finishAll(&Error{Kind: ErrRefused, text: text})
	s.wantNow()
}

func (s *worker) scheduleRenewal() {
	s.core.schedule(s, s.sent+larger(s.lease.lengthMs*millisecond/3, renewPause))
}

func (s *worker) setEnd() {
	s.endUnit = s.layout.unitOf(s.lease.notAfter)
	if s.endUnit > 1<<s.layout.Time {
		s.endUnit = 1 << s.layout.Time
	}
	s.checkAt = never
}

func (s *worker) applyRenewal(reply any) error {
	parts, _ := reply.([]any)
	var end int64
	isEnd := false
	if len(parts) > 0 {
		end, isEnd = parts[0].(int64)
	}
	if !isEnd || end < s.lease.notAfter || end > timeMax {
		return fmt.Errorf("%w to WORKERID RENEW: %.100s", errForm, fmt.Sprint(reply))
	}
	s.succeeded()
	s.lease.notAfter = end
	if !s.isAhead {
		s.lease.givenEnd = end
	}
	s.stats.Renewals++
	s.isWanted = false
	s.setEnd()
	s.core.event(Event{Kind: Renewed, Object: s.name})
	s.scheduleRenewal()
	if now := s.nowMs(); now >= end {
		s.reportClock(now - s.lease.givenEnd)
	} else {
		s.finishAll(nil)
	}
	return nil
}

func (s *worker) reportClock(aheadMs int64) {
	s.stats.ClockAheadMs = aheadMs
	ahead := time.Duration(aheadMs) * time.Millisecond
	text := fmt.Sprintf("%s: this machine's clock is at least %.3f s ahead of the server's, past the end of a lease that "+
		"was just given: set the clock (timedatectl set-ntp true), or give the pool a lease that is longer than the "+
		"difference", s.subject, ahead.Seconds())
	s.lastFailure = text
	s.core.event(Event{Kind: ClockAhead, Object: s.name, Reason: text, Difference: ahead})
	s.finishAll(&Error{Kind: ErrClock, Difference: ahead, text: text})
}

// isOver reports whether an error to RENEW or RELEASE shows that the lease cannot be renewed any more.
func isOver(code string) bool { return code == "EXPIRED" || code == "REVOKED" || code == "WRONGTOKEN" }

func (s *worker) refuse(e *serverError) bool {
	switch code := e.code(); {
	case s.job == jobRelease:
		s.unfit = nil // whatever the reason: the id is free at the end of its lease
	case s.job != jobRenew || s.lease == nil:
		return false
	case isOver(code):
		s.lease.isLost = true
		s.failures++
		s.lastFailure = e.text
		s.core.event(Event{Kind: LeaseLost, Object: s.name, Reason: e.text})
	case s.isAhead:
		s.isLastReal = true
		s.wantNow()
		return true
	default:
		return false
	}
	if len(s.waiters) > 0 {
		s.wantNow()
	}
	return true
}

// timeMax bounds times of a reply, in Unix milliseconds.
const timeMax = 1 << 50

func parseLease(reply any) (*lease, error) {
	parts, _ := reply.([]any)
	if len(parts) >= 5 {
		token, isToken := parts[1].([]byte)
		var numbers [4]int64
		areTimes := true
		for i, at := range []int{0, 2, 3, 4} {
			number, isNumber := parts[at].(int64)
			areTimes = areTimes && isNumber && number >= 0 && number <= timeMax
			numbers[i] = number
		}
		if areTimes && isToken && len(token) > 0 && len(token) <= 256 && numbers[1] < numbers[2] && numbers[0] <= 1<<16 {
			return &lease{id: numbers[0], token: string(token), notBefore: numbers[1], notAfter: numbers[2],
				givenEnd: numbers[2], lengthMs: larger(numbers[3], 1)}, nil
		}
	}
	if len(parts) > 1 {
		reply = parts[:1] // the token is secret
	}
	return nil, fmt.Errorf("%w to WORKERID LEASE: %.100s", errForm, fmt.Sprint(reply))
}
