package getid

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSegmentsAreUsedInOrder(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	s := c.Sequence("s")
	first := start(s)
	server.expect("SEQUENCE NEXT s COUNT 17").replyRange(1, 17, 1)
	wait(t, first).check(t, 1)
	nextIs(t, s, 2, 3, 4, 5, 6, 7, 8)
	server.expectNothing()
	nextIs(t, s, 9) // at most half is left: a fetch starts
	server.expect("SEQUENCE NEXT s COUNT 32").replyRange(18, 49, 1)
	waitFor(t, "a second segment", func() bool { return s.Stats().Fetches == 2 })
	nextIs(t, s, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	server.expectNothing()
	stats := s.Stats()
	if stats.Values != 19 || stats.Held != 30 || stats.Waits != 1 || stats.Prefetch != 32 || stats.Dropped != 0 {
		t.Fatalf("stats %+v", stats)
	}
}

func TestPrefetchShrinksAtALowRate(t *testing.T) {
	server := startServer(t)
	c, k := open(t, server)
	s := c.Sequence("s")
	first := start(s)
	server.expect("SEQUENCE NEXT s COUNT 17").replyRange(1, 3, 1)
	wait(t, first).check(t, 1)
	k.Shift(time.Second, time.Second)
	nextIs(t, s, 2)
	server.expect("SEQUENCE NEXT s COUNT 8")
}

func TestTakeUsesIncrements(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	s := c.Sequence("s", WithPrefetchMax(0))
	values := make([]int64, 5)
	ended := make(chan error, 1)
	go func() { ended <- s.Take(context.Background(), values) }()
	server.expect("SEQUENCE NEXT s COUNT 5").replyRange(10, 16, 3)
	server.expect("SEQUENCE NEXT s COUNT 2").replyRange(19, 22, 3)
	if err := <-ended; err != nil || values[0] != 10 || values[2] != 16 || values[3] != 19 || values[4] != 22 {
		t.Fatalf("values %v, error %v", values, err)
	}
}

func TestAReplyIsKeptForLaterCallsAfterACancelledOne(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	s := c.Sequence("s", WithPrefetchMax(0))
	ctx, cancel := context.WithCancel(context.Background())
	call := startWith(ctx, s)
	request := server.expect("SEQUENCE NEXT s COUNT 1")
	cancel()
	if got := wait(t, call); !errors.Is(got.err, context.Canceled) || errors.Is(got.err, ErrUnavailable) {
		t.Fatal(got.err)
	}
	request.replyRange(7, 7, 1)
	waitFor(t, "a value in memory", func() bool { return s.Stats().Held == 1 })
	nextIs(t, s, 7)
	server.expectNothing()
}

func TestADeadlineIsUnavailable(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server, WithTimeout(0))
	s := c.Sequence("s")
	_, err := s.Next(context.Background())
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = s.Next(ctx)
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if text := err.Error(); !strings.Contains(text, server.address()) || !strings.Contains(text, "within 1ms") {
		t.Fatal(text)
	}
}

func TestFreshCallsShareAFetchThatBeganAfterThem(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	s := c.Sequence("s", WithFresh())
	first := start(s)
	request := server.expect("SEQUENCE NEXT s COUNT 1")
	second, third := start(s), start(s)
	request.replyRange(1, 1, 1)
	wait(t, first).check(t, 1)
	request = server.expect("SEQUENCE NEXT s COUNT 2")
	if len(second)+len(third) > 0 {
		t.Fatal("a call was served by a request from before it")
	}
	request.replyRange(2, 3, 1)
	wait(t, second).check(t, 2)
	wait(t, third).check(t, 3)
	if _, isFound := s.TryNext(); isFound || s.WarmUp(context.Background(), 5) != nil {
		t.Fatal("a fresh sequence has nothing in memory")
	}
	server.expectNothing()
}

func TestSegmentsAreDroppedByAgeAndByTheWallClock(t *testing.T) {
	for name, move := range map[string][2]time.Duration{
		"monotonic": {0, time.Minute}, "wall": {time.Minute, time.Millisecond}, "back": {-time.Second, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t)
			c, k := open(t, server)
			s := c.Sequence("s")
			first := start(s)
			server.expect("SEQUENCE NEXT s COUNT 17").replyRange(1, 17, 1)
			wait(t, first).check(t, 1)
			k.Shift(move[0], move[1])
			second := start(s)
			server.expect("SEQUENCE NEXT s COUNT *").replyRange(18, 18, 1)
			wait(t, second).check(t, 18)
			if stats := s.Stats(); stats.Dropped != 16 || stats.Values != 2 {
				t.Fatalf("stats %+v", stats)
			}
		})
	}
}

func TestAReplyThatIsTooOldIsDropped(t *testing.T) {
	server := startServer(t)
	c, k := open(t, server)
	s := c.Sequence("s", WithPrefetchMax(0), WithHold(time.Second))
	call := start(s)
	request := server.expect("SEQUENCE NEXT s COUNT 1")
	k.Shift(time.Second, 0)
	request.replyRange(1, 1, 1)
	waitFor(t, "a dropped value", func() bool { return s.Stats().Dropped == 1 })
	server.expectNothing()
	k.Shift(0, backoffFirst)
	server.expect("SEQUENCE NEXT s COUNT 1").replyRange(2, 2, 1)
	wait(t, call).check(t, 2)
}

func TestValuesAscendAfterAChangeOfTheServer(t *testing.T) {
	server := startServer(t)
	c, k := open(t, server)
	s := c.Sequence("s", WithPrefetchMax(0))
	call := start(s)
	server.expect("SEQUENCE NEXT s COUNT 1").replyRange(100, 100, 1)
	wait(t, call).check(t, 100)
	call = start(s)
	server.expect("SEQUENCE NEXT s COUNT 1").connection.Close()
	waitFor(t, "a failure", func() bool { return s.Stats().Failures == 1 })
	k.Shift(0, backoffFirst)
	server.expect("SEQUENCE NEXT s COUNT 1 ABOVE 100").replyRange(50, 50, 1) // dropped whole
	waitFor(t, "a dropped range", func() bool { return s.Stats().Dropped == 1 })
	server.expectNothing()
	k.Shift(0, backoffFirst)
	server.expect("SEQUENCE NEXT s COUNT 1 ABOVE 100").replyRange(101, 101, 1)
	wait(t, call).check(t, 101)
	if stats := s.Stats(); stats.Dropped != 1 || stats.Failures != 1 {
		t.Fatalf("stats %+v", stats)
	}
}

func TestARangeThatIsPartlyKnownIsCut(t *testing.T) {
	q := &sequence{newest: 10}
	for _, one := range []struct{ first, size, step, left, next int64 }{
		{1, 10, 1, 0, 0}, {1, 12, 1, 2, 11}, {11, 3, 1, 3, 11}, {8, 4, 4, 3, 12}, {10, 1, 5, 0, 0},
	} {
		q.newest = 10
		got := segment{next: one.first, left: one.size, step: one.step}
		if q.skipKnown(&got) != (one.left > 0) || got.left != one.left || one.left > 0 && got.next != one.next {
			t.Fatalf("%+v became %+v", one, got)
		}
	}
}

func TestUnexpectedRangesCloseTheConnection(t *testing.T) {
	for _, raw := range []string{
		":1\r\n", "*2\r\n:1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:1\r\n", "*3\r\n:2\r\n:1\r\n:1\r\n", "*3\r\n:-1\r\n:-1\r\n:1\r\n",
		"*3\r\n:1\r\n:2\r\n:3\r\n", "*3\r\n:1\r\n:1\r\n:0\r\n", "*3\r\n:1\r\n$1\r\n1\r\n:1\r\n", "$-1\r\n", "+OK\r\n",
		"*3\r\n:1\r\n:1\r\n:1\r\n:9\r\n", "hello\r\n", ":1\n", "\r\n",
	} {
		server := startServer(t)
		c, k := open(t, server)
		s := c.Sequence("s", WithPrefetchMax(0))
		call := start(s)
		server.expect("SEQUENCE NEXT s COUNT 1").reply(raw)
		server.expectEnd()
		waitFor(t, "a failure", func() bool { return s.Stats().Failures == 1 })
		k.Shift(0, backoffFirst)
		server.expect("SEQUENCE NEXT s COUNT 1").replyRange(5, 5, 1)
		wait(t, call).check(t, 5)
	}
}

func TestErrorRepliesAreMetByTheirFirstWord(t *testing.T) {
	for _, code := range []string{"TRYAGAIN", "BUSY", "EXHAUSTED", "MISCONF", "LOADING",
		"ERR max number of clients reached"} {
		server := startServer(t)
		c, k := open(t, server)
		s := c.Sequence("s", WithPrefetchMax(0))
		call := start(s)
		server.expect("SEQUENCE NEXT s COUNT 1").reply("-" + code + " not now\r\n")
		waitFor(t, "a failure", func() bool { return s.Stats().Failures == 1 })
		k.Shift(0, time.Second)
		server.expect("SEQUENCE NEXT s COUNT 1").replyRange(5, 5, 1)
		wait(t, call).check(t, 5)
	}
	for _, code := range []string{"NOPERM", "NOAUTH", "ERR"} {
		server := startServer(t)
		c, _ := open(t, server)
		s := c.Sequence("s")
		calls := []chan result{start(s)}
		request := server.expect("SEQUENCE NEXT s COUNT 17")
		calls = append(calls, start(s))
		request.reply("-" + code + " no\r\n")
		for _, call := range calls {
			var failure *Error
			if got := wait(t, call); !errors.Is(got.err, ErrRefused) || !errors.As(got.err, &failure) || failure.Code != code {
				t.Fatal(got.err)
			}
		}
	}
}

func TestLoadingServersArePolled(t *testing.T) {
	one, other := startServer(t), startServer(t)
	c, k := open(t, one)
	c.core.target.addresses = append(c.core.target.addresses, addressOf(t, other))
	s := c.Sequence("s", WithPrefetchMax(0))
	call := start(s)
	one.expect("SEQUENCE NEXT s COUNT 1").reply("-LOADING\r\n")
	other.expect("SEQUENCE NEXT s COUNT 1").reply("-LOADING\r\n")
	waitFor(t, "two failures", func() bool { return s.Stats().Failures == 2 })
	c.core.mu.Lock()
	delay := time.Duration(s.state.due - k.Mono())
	c.core.mu.Unlock()
	if delay != loadingWait {
		t.Fatalf("a wait of %v", delay)
	}
	k.Shift(0, loadingWait)
	one.expect("SEQUENCE NEXT s COUNT 1").replyRange(5, 5, 1)
	wait(t, call).check(t, 5)
}

func addressOf(t *testing.T, s *fakeServer) address {
	t.Helper()
	found, err := parseURL("getid://" + s.address())
	if err != nil {
		t.Fatal(err)
	}
	return found.addresses[0]
}

func TestTryNextStartsTheFetch(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	s := c.Sequence("s", WithPrefetchMax(0))
	if _, isFound := s.TryNext(); isFound {
		t.Fatal("a value without a fetch")
	}
	server.expect("SEQUENCE NEXT s COUNT 1").replyRange(3, 3, 1)
	waitFor(t, "a value", func() bool { return s.Stats().Held == 1 })
	if value, isFound := s.TryNext(); value != 3 || !isFound {
		t.Fatalf("value %d, %v", value, isFound)
	}
	server.expectNothing()
}

func TestWarmUpAddsWhatIsMissingAndDropsNothing(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	s := c.Sequence("s")
	ended := make(chan error, 1)
	warmUp := func(n int) { ended <- s.WarmUp(context.Background(), n) }
	go warmUp(17)
	server.expect("SEQUENCE NEXT s COUNT 17").replyRange(1, 17, 1)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	nextIs(t, s, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	server.expect("SEQUENCE NEXT s COUNT 32").replyRange(18, 49, 1)
	waitFor(t, "a second segment", func() bool { return s.Stats().Fetches == 2 })
	go warmUp(40)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	server.expectNothing()
	go warmUp(100)
	server.expect("SEQUENCE NEXT s COUNT 60").replyRange(50, 79, 1) // a server may return fewer
	server.expect("SEQUENCE NEXT s COUNT 30").replyRange(80, 109, 1)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for value := int64(10); value < 90; value++ {
		nextIs(t, s, value)
	}
	if stats := s.Stats(); stats.Dropped != 0 || stats.Held != 20 {
		t.Fatalf("stats %+v", stats)
	}
}

func TestWaitingCallsAreBounded(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	s := c.Sequence("s")
	call := start(s)
	server.expect("SEQUENCE NEXT s COUNT 17")
	c.core.mu.Lock()
	for len(s.state.waiters) < waitersMax {
		s.state.waiters = append(s.state.waiters, &waiter{dst: make([]int64, 1), done: make(chan struct{})})
	}
	c.core.mu.Unlock()
	if _, err := s.Next(context.Background()); !errors.Is(err, ErrUnavailable) || len(call) > 0 {
		t.Fatal(err)
	}
}

func TestGoroutinesGetEachValueOnce(t *testing.T) {
	server := startServer(t)
	c, err := New("getid://" + server.address())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // answers with as many values as each request has
		next := int64(1)
		for {
			select {
			case r := <-server.requests:
				var count int64
				for _, digit := range strings.Fields(r.text)[4] {
					count = 10*count + int64(digit-'0')
				}
				r.replyRange(next, next+count-1, 1)
				next += count
			case <-done:
				return
			}
		}
	}()
	s := c.Sequence("s", WithPrefetchMax(1000))
	const threads, each = 8, 20_000
	values := make([][]int64, threads)
	var group sync.WaitGroup
	for i := range values {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for len(values[i]) < each {
				value, err := s.Next(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				values[i] = append(values[i], value)
			}
		}(i)
	}
	group.Wait()
	seen := map[int64]bool{}
	for _, part := range values {
		for i, value := range part {
			if seen[value] || i > 0 && value <= part[i-1] {
				t.Fatalf("value %d comes twice, or out of order", value)
			}
			seen[value] = true
		}
	}
	if got := s.Stats().Values; got != threads*each {
		t.Fatalf("stats have %d values", got)
	}
	c.Close(context.Background())
	close(done)
}
