package getid

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// tiny has two counters in a unit of 10 ms.
var tiny = Layout{Time: 40, Worker: 4, Counter: 1, UnitMs: 10, EpochMs: 3}

func giveLease(t *testing.T, s *fakeServer, w *Worker, id, notBefore, notAfter int64) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- w.WarmUp(context.Background(), 1) }()
	s.expect("WORKERID LEASE p NAME n").replyLease(id, notBefore, notAfter, 30_000)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func idAt(l Layout, ms, worker, counter int64) int64 {
	l = l.normalized()
	return l.compose(l.unitOf(ms), worker) + counter*l.counterStep()
}

func TestIDsHaveTheTimeAndTheCounter(t *testing.T) {
	for name, layout := range map[string]Layout{"Twitter": Twitter, "Sonyflake": Sonyflake} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t)
			c, k := open(t, server)
			w := c.Worker("p", layout, WithName("n"))
			giveLease(t, server, w, 7, startMs-1000, startMs+30_000)
			nextIs(t, w, idAt(layout, startMs, 7, 0), idAt(layout, startMs, 7, 1))
			k.Shift(20*time.Millisecond, 20*time.Millisecond)
			id, err := w.Next(context.Background())
			result{id, err}.check(t, idAt(layout, startMs+20, 7, 0))
			if parts := layout.Parts(id); parts.Worker != 7 || parts.Counter != 0 || parts.Time.UnixMilli() != startMs+20 {
				t.Fatalf("parts %+v", parts)
			}
			k.Shift(-time.Hour, time.Millisecond) // the newest ID's unit is continued
			nextIs(t, w, idAt(layout, startMs+20, 7, 1))
		})
	}
}

func TestAFullCounterTakesTheNextUnitUntilTheEndOfTheLease(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	w := c.Worker("p", tiny, WithName("n"))
	// Units begin at ...3 ms: the lease covers those that begin at 13 and 23, not all of 3 and of 33.
	begin := int64(startMs)
	giveLease(t, server, w, 3, begin+4, begin+42)
	want := []int64{idAt(tiny, begin+13, 3, 0), idAt(tiny, begin+13, 3, 1), idAt(tiny, begin+23, 3, 0),
		idAt(tiny, begin+23, 3, 1)}
	nextIs(t, w, want...)
	call := start(w)
	server.expect(fmt.Sprintf("WORKERID RENEW p 3 tok LAST %d", begin+32)).replyEnd(begin + 43)
	wait(t, call).check(t, idAt(tiny, begin+33, 3, 0))
	go c.Close(context.Background())
	server.expect(fmt.Sprintf("WORKERID RELEASE p 3 tok LAST %d", begin+42)).reply("+OK\r\n")
}

func TestCloseReleasesAnUnusedLeaseBelowItsBegin(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	giveLease(t, server, c.Worker("p", Twitter, WithName("n")), 0, startMs+5, startMs+30_000)
	ended := make(chan error, 1)
	go func() { ended <- c.Close(context.Background()) }()
	server.expect(fmt.Sprintf("WORKERID RELEASE p 0 tok LAST %d", startMs+4)).reply("+OK\r\n")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestRenewalIsDueAfterAThirdAndAtOnceAfterAJump(t *testing.T) {
	server := startServer(t)
	c, k := open(t, server)
	w := c.Worker("p", Twitter, WithName("n"))
	giveLease(t, server, w, 7, startMs, startMs+30_000)
	k.Shift(9999*time.Millisecond, 9999*time.Millisecond)
	nextIs(t, w, idAt(Twitter, startMs+9999, 7, 0))
	server.expectNothing()
	k.Shift(time.Millisecond, time.Millisecond)
	server.expect(fmt.Sprintf("WORKERID RENEW p 7 tok LAST %d", startMs+9999)).replyEnd(startMs + 40_000)
	waitFor(t, "a renewal", func() bool { return w.Stats().Renewals == 1 })
	k.Shift(5*time.Second, time.Second)
	nextIs(t, w, idAt(Twitter, startMs+15_000, 7, 0))
	server.expect(fmt.Sprintf("WORKERID RENEW p 7 tok LAST %d", startMs+15_000))
}

func TestAFailedRenewalIsTriedAgainWhileTheLeaseLasts(t *testing.T) {
	server := startServer(t)
	c, k := open(t, server)
	w := c.Worker("p", Twitter, WithName("n"))
	giveLease(t, server, w, 7, startMs, startMs+30_000)
	k.Shift(10*time.Second, 10*time.Second)
	server.expect("WORKERID RENEW *").reply("-MISCONF the store is away\r\n")
	waitFor(t, "a failure", func() bool { return w.Stats().Failures == 1 })
	nextIs(t, w, idAt(Twitter, startMs+10_000, 7, 0))
	k.Shift(time.Second, time.Second)
	server.expect("WORKERID RENEW *").replyEnd(startMs + 40_000)
	waitFor(t, "a renewal", func() bool { return w.Stats().Renewals == 1 })
}

func TestALostLeaseIsUsedToItsEndAndThenLeasedAgain(t *testing.T) {
	for _, code := range []string{"EXPIRED", "REVOKED", "WRONGTOKEN"} {
		server := startServer(t)
		c, k := open(t, server)
		w := c.Worker("p", Twitter, WithName("n"))
		giveLease(t, server, w, 7, startMs, startMs+30_000)
		k.Shift(10*time.Second, 10*time.Second)
		server.expect("WORKERID RENEW *").reply("-" + code + " it is over\r\n")
		waitFor(t, "a failure", func() bool { return w.Stats().Failures == 1 })
		k.Shift(19_999*time.Millisecond, 19_999*time.Millisecond)
		nextIs(t, w, idAt(Twitter, startMs+29_999, 7, 0))
		server.expectNothing()
		k.Shift(time.Millisecond, time.Millisecond)
		call := start(w)
		// The new lease begins before the newest ID: its unit is above that.
		server.expect("WORKERID LEASE *").replyLease(8, startMs+20_000, startMs+60_000, 30_000)
		wait(t, call).check(t, idAt(Twitter, startMs+30_000, 8, 0))
	}
}

func TestAClockThatIsAheadSendsItsTimeAndThenTheRealLast(t *testing.T) {
	server := startServer(t)
	c, k := open(t, server)
	w := c.Worker("p", Twitter, WithName("n"))
	ahead := 45 * time.Second
	call := start(w)
	server.expect("WORKERID LEASE *").replyLease(7, startMs-45_000, startMs-15_000, 30_000)
	server.expect(fmt.Sprintf("WORKERID RENEW p 7 tok LAST %d", startMs-1)).reply("-ERR LAST is too far\r\n")
	server.expect(fmt.Sprintf("WORKERID RENEW p 7 tok LAST %d", startMs-45_001)).replyEnd(startMs - 15_000)
	got := wait(t, call)
	var failure *Error
	if !errors.Is(got.err, ErrClock) || !errors.As(got.err, &failure) || failure.Difference != 15*time.Second {
		t.Fatal(got.err)
	}
	if stats := w.Stats(); stats.ClockAheadMs != 15_000 || !strings.Contains(got.err.Error(), "15.000 s ahead") {
		t.Fatalf("stats %+v, error %v", stats, got.err)
	}
	k.Shift(-ahead, time.Second)
	nextIs(t, w, idAt(Twitter, startMs-45_000, 7, 0))
}

func TestAClockThatIsAheadGetsALeaseThatSuitsIt(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	w := c.Worker("p", Twitter, WithName("n"))
	call := start(w)
	server.expect("WORKERID LEASE *").replyLease(7, startMs-45_000, startMs-15_000, 30_000)
	server.expect(fmt.Sprintf("WORKERID RENEW p 7 tok LAST %d", startMs-1)).replyEnd(startMs + 15_000)
	wait(t, call).check(t, idAt(Twitter, startMs, 7, 0))
}

func TestAWorkerIDThatDoesNotFitIsReleased(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	w := c.Worker("p", tiny, WithName("n"))
	call := start(w)
	server.expect("WORKERID LEASE *").replyLease(16, startMs, startMs+30_000, 30_000)
	got := wait(t, call)
	if !errors.Is(got.err, ErrRefused) || !strings.Contains(got.err.Error(), "size 16'") {
		t.Fatal(got.err)
	}
	server.expect(fmt.Sprintf("WORKERID RELEASE p 16 tok LAST %d", startMs-1)).reply("+OK\r\n")
}

func TestALostLeaseReplyWaitsASecond(t *testing.T) {
	server := startServer(t)
	c, k := open(t, server)
	w := c.Worker("p", Twitter, WithName("n"))
	call := start(w)
	for i, delay := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		server.expect("WORKERID LEASE *").connection.Close()
		waitFor(t, "a failure", func() bool { return w.Stats().Failures == int64(i+1) })
		c.core.mu.Lock()
		found := time.Duration(w.state.due - k.Mono())
		c.core.mu.Unlock()
		if found != delay {
			t.Fatalf("a wait of %v, must be %v", found, delay)
		}
		k.Shift(delay, delay)
	}
	server.expect("WORKERID LEASE *").replyLease(1, startMs, startMs+30_000, 30_000)
	wait(t, call).check(t, idAt(Twitter, startMs+7000, 1, 0))
}

func TestUnexpectedLeasesCloseTheConnectionAndHideTheToken(t *testing.T) {
	for _, raw := range []string{
		"+OK\r\n", "*1\r\n:1\r\n",
		"*5\r\n:1\r\n$3\r\ntok\r\n:9\r\n:9\r\n:1\r\n", "*5\r\n:-1\r\n$3\r\ntok\r\n:1\r\n:2\r\n:1\r\n",
		"*5\r\n:1\r\n:3\r\n:1\r\n:2\r\n:1\r\n", "*5\r\n:1\r\n$3\r\ntok\r\n:1\r\n:9223372036854775807\r\n:1\r\n",
		"*4\r\n:1\r\n$3\r\ntok\r\n:1\r\n:2\r\n", "*5\r\n:1\r\n$0\r\n\r\n:1\r\n:2\r\n:1\r\n",
	} {
		server := startServer(t)
		c, _ := open(t, server)
		w := c.Worker("p", Twitter, WithName("n"))
		start(w)
		server.expect("WORKERID LEASE *").reply(raw)
		server.expectEnd()
		waitFor(t, "a failure", func() bool { return w.Stats().Failures == 1 })
		c.core.mu.Lock()
		failure := w.state.lastFailure
		c.core.mu.Unlock()
		if strings.Contains(failure, "tok") || !strings.Contains(failure, "WORKERID LEASE") {
			t.Fatal(failure)
		}
	}
}

func TestTakeSpansUnits(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	w := c.Worker("p", Twitter, WithName("n"))
	giveLease(t, server, w, 7, startMs, startMs+30_000)
	ids := make([]int64, 10_000)
	if err := w.Take(context.Background(), ids); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if want := idAt(Twitter, startMs+int64(i>>12), 7, int64(i&4095)); id != want {
			t.Fatalf("ID %d is %d, must be %d", i, id, want)
		}
	}
	if id, isFound := w.TryNext(); !isFound || id <= ids[9999] || w.Stats().Values != 10_001 {
		t.Fatalf("ID %d, %v", id, isFound)
	}
}

func TestTheTimeOfALayoutEnds(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	w := c.Worker("p", Layout{Time: 10, Worker: 4, Counter: 1, EpochMs: startMs - 1024}, WithName("n"))
	giveLease(t, server, w, 7, startMs-1024, startMs+30_000)
	if _, err := w.Next(context.Background()); !errors.Is(err, ErrRefused) {
		t.Fatal(err)
	}
}

func TestTheNameOfAHolderIsCleaned(t *testing.T) {
	long := strings.Repeat("x", 70)
	for name, want := range map[string]string{
		"api-1": "api-1", "a b\n\x7f": "a_b__", "\xc3\xa4": "__", long[:64]: long[:64], long: long[:55] + "-",
	} {
		got := holderName(name)
		if name == long {
			if len(got) != 64 || !strings.HasPrefix(got, want) || got == holderName(long+"y") {
				t.Fatal(got)
			}
		} else if got != want {
			t.Fatalf("%q became %q, must be %q", name, got, want)
		}
	}
}
