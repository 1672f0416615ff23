package getid

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"getid.local/client/internal/clock"
)

func TestCloseWakesCallsAndIsIdempotent(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	s, w := c.Sequence("s"), c.Worker("p", Twitter, WithName("n"))
	giveLease(t, server, w, 7, startMs, startMs+30_000)
	nextIs(t, w, idAt(Twitter, startMs, 7, 0))
	calls := []chan result{start(s), start(s)}
	request := server.expect("SEQUENCE NEXT s COUNT *")
	ended := make(chan error, 2)
	go func() { ended <- c.Close(context.Background()) }()
	release := server.expect("WORKERID RELEASE p 7 tok LAST 1800000000000")
	if release.connection == request.connection {
		t.Fatal("RELEASE was sent on the old connection")
	}
	for _, call := range calls {
		if got := wait(t, call); !errors.Is(got.err, ErrClosed) {
			t.Fatal(got.err)
		}
	}
	request.replyRange(1, 17, 1)
	go func() { ended <- c.Close(context.Background()) }()
	release.reply("+OK\r\n")
	for i := 0; i < 2; i++ {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range []Source{s, w, c.Sequence("other")} {
		_, err := object.Next(context.Background())
		_, isFound := object.TryNext()
		if !errors.Is(err, ErrClosed) || isFound || !errors.Is(object.WarmUp(context.Background(), 1), ErrClosed) {
			t.Fatalf("error %v, %v", err, isFound)
		}
	}
	server.expectNothing()
}

func TestALateRenewalChangesNothingAfterClose(t *testing.T) {
	server := startServer(t)
	c, k := open(t, server)
	w := c.Worker("p", Twitter, WithName("n"))
	giveLease(t, server, w, 7, startMs, startMs+30_000)
	k.Shift(10*time.Second, 10*time.Second)
	renewal := server.expect("WORKERID RENEW *")
	ended := make(chan error, 1)
	go func() { ended <- c.Close(context.Background()) }()
	release := server.expect("WORKERID RELEASE *")
	renewal.replyEnd(startMs + 40_000)
	release.reply("+OK\r\n")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the renewal", func() bool {
		c.core.mu.Lock()
		defer c.core.mu.Unlock()
		return !c.core.isBusy
	})
	if _, err := w.Next(context.Background()); !errors.Is(err, ErrClosed) || w.Stats().WorkerID != -1 {
		t.Fatal(err)
	}
}

func TestCloseReportsWhatIsNotReleased(t *testing.T) {
	for raw, isReleased := range map[string]bool{
		"-NOPERM no\r\n": false, "-EXPIRED\r\n": true, "-WRONGTOKEN no\r\n": true, "*0\r\n": false,
	} {
		server := startServer(t)
		c, _ := open(t, server)
		giveLease(t, server, c.Worker("p", Twitter, WithName("n")), 7, startMs, startMs+30_000)
		ended := make(chan error, 1)
		go func() { ended <- c.Close(context.Background()) }()
		server.expect("WORKERID RELEASE *").reply(raw)
		if err := <-ended; isReleased != (err == nil) || err != nil && !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
	server := startServer(t)
	c, _ := open(t, server)
	giveLease(t, server, c.Worker("p", Twitter, WithName("n")), 7, startMs, startMs+30_000)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Close(ctx) }()
	server.expect("WORKERID RELEASE *") // no reply comes
	cancel()
	if err := <-ended; !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestALastThatIsTooFarAheadIsLeftOut(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	giveLease(t, server, c.Worker("p", Twitter, WithName("n")), 7, startMs, startMs+30_000)
	ended := make(chan error, 1)
	go func() { ended <- c.Close(context.Background()) }()
	server.expect("WORKERID RELEASE p 7 tok LAST 1799999999999").reply("-ERR LAST is too far\r\n")
	server.expect("WORKERID RELEASE p 7 tok").reply("+OK\r\n")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestDiscardDropsValuesAndLeasesWithoutAMessage(t *testing.T) {
	server := startServer(t)
	c, _ := open(t, server)
	s, w := c.Sequence("s"), c.Worker("p", Twitter, WithName("n"))
	giveLease(t, server, w, 7, startMs, startMs+30_000)
	call := start(s)
	server.expect("SEQUENCE NEXT s COUNT 17").replyRange(1, 17, 1)
	wait(t, call).check(t, 1)
	c.Discard()
	server.expectEnd()
	call = start(s)
	late := server.expect("SEQUENCE NEXT s COUNT *")
	c.Discard() // the call continues to wait
	server.expectEnd()
	late.replyRange(18, 50, 1)
	server.expect("SEQUENCE NEXT s COUNT *").replyRange(51, 83, 1)
	wait(t, call).check(t, 51)
	id := start(w)
	server.expect("WORKERID LEASE *").replyLease(8, startMs, startMs+30_000, 30_000)
	wait(t, id).check(t, idAt(Twitter, startMs, 8, 0))
	if stats := s.Stats(); stats.Dropped != 16 {
		t.Fatalf("stats %+v", stats)
	}
}

func TestDiscardTakesBackWhatIsNotSentYet(t *testing.T) {
	c, err := New("getid://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	c.core.isStarted = true // no goroutine takes up the jobs
	s, w := c.Sequence("s"), c.Worker("p", Twitter)
	s.TryNext()
	w.TryNext()
	if len(c.core.queue) != 2 {
		t.Fatalf("%d jobs", len(c.core.queue))
	}
	c.Discard()
	if len(c.core.queue) != 0 || s.state.isWanted || w.state.isWanted {
		t.Fatalf("%d jobs", len(c.core.queue))
	}
}

func TestForgottenClientsEnd(t *testing.T) {
	server := startServer(t)
	func() {
		c, err := New("getid://" + server.address())
		if err != nil {
			t.Fatal(err)
		}
		s := c.Sequence("s")
		call := start(s)
		server.expect("SEQUENCE NEXT s COUNT 17").replyRange(1, 17, 1)
		wait(t, call).check(t, 1)
	}()
	waitFor(t, "the end of the connection", func() bool {
		runtime.GC()
		return len(server.ends) == 1
	})
	waitFor(t, "the end of the goroutine", func() bool { return !isWorking() })
}

// isWorking reports whether a background goroutine of any client runs.
func isWorking() bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*core).work")
}

func TestTheGoroutineBeginsAtFirstUseAndEndsAtClose(t *testing.T) {
	waitFor(t, "the end of other clients", func() bool { return !isWorking() })
	server := startServer(t)
	c, _ := open(t, server)
	s := c.Sequence("s")
	if isWorking() {
		t.Fatal("a goroutine without a use")
	}
	s.TryNext()
	server.expect("SEQUENCE NEXT s COUNT *")
	if !isWorking() {
		t.Fatal("no goroutine")
	}
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the goroutine", func() bool { return !isWorking() })
}

func TestEventsComeInOrderAndTheirPanicsAreIgnored(t *testing.T) {
	server := startServer(t)
	events := make(chan Event, 10)
	c, _ := open(t, server, WithOnEvent(func(e Event) {
		events <- e
		panic("of the callback")
	}))
	s := c.Sequence("s")
	start(s)
	server.expect("SEQUENCE NEXT s COUNT 17").reply("-NOPERM no\r\n")
	for _, kind := range []EventKind{Connected, FetchFailed} {
		if e := <-events; e.Kind != kind || e.Address != server.address() {
			t.Fatalf("event %+v, must be %s", e, kind)
		}
	}
}

func TestACallIsServedWhileTheCallbackBlocks(t *testing.T) {
	server := startServer(t)
	release, isBlocked := make(chan struct{}), make(chan struct{})
	c, _ := open(t, server, WithOnEvent(func(e Event) {
		if e.Kind == Connected {
			close(isBlocked)
			<-release
		}
	}))
	s := c.Sequence("s", WithPrefetchMax(0))
	call := start(s)
	server.expect("SEQUENCE NEXT s COUNT 1").replyRange(1, 1, 1)
	wait(t, call).check(t, 1)
	<-isBlocked
	call = start(s)
	server.expect("SEQUENCE NEXT s COUNT 1").replyRange(2, 2, 1)
	wait(t, call).check(t, 2)
	close(release)
}

func TestEventsAreBounded(t *testing.T) {
	c := &core{target: &target{addresses: []address{{"h", "1"}}}}
	c.onEvent = func(Event) {}
	for i := 0; i < eventsMax+5; i++ {
		c.event(Event{Difference: time.Duration(i)})
	}
	if len(c.events) != eventsMax || c.events[0].Difference != 5 {
		t.Fatalf("%d events, the first %+v", len(c.events), c.events[0])
	}
}

func TestObjectsAreTheSameEachTime(t *testing.T) {
	c, err := New("getid://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	s, w := c.Sequence("s"), c.Worker("p", Twitter)
	if c.Sequence("s", WithHold(time.Minute)) != s || c.Worker("p", Snowflake) != w || s.Err() != nil || w.Err() != nil {
		t.Fatal("another object")
	}
	copied := *s
	if copied != *s || s.String() != "sequence 's'" || w.String() != "worker pool 'p'" {
		t.Fatal("a copy is the same object")
	}
	if text := c.String(); text != "getid client of 127.0.0.1:1" {
		t.Fatal(text)
	}
}

func TestWrongArgumentsNameTheirRange(t *testing.T) {
	c, err := New("getid://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	c.Sequence("s")
	c.Worker("p", Twitter)
	long := strings.Repeat("x", 129)
	for text, found := range map[string]interface {
		Source
		Err() error
	}{
		"name has 0 bytes, must have 1 to 128":         c.Sequence(""),
		"name has 129 bytes":                           c.Sequence(long),
		"WithPrefetchMax is -1, must be 0 to 10000000": c.Sequence("a", WithPrefetchMax(-1)),
		"WithHold is 1ms, must be 10ms to 1m0s":        c.Sequence("a", WithHold(time.Millisecond)),
		"WithHold is 1m1s":                             c.Sequence("a", WithHold(61*time.Second)),
		"sequence 's' exists with other options":       c.Sequence("s", WithFresh()),
		"pool has 0 bytes":                             c.Worker("", Twitter),
		"worker pool 'p' exists with other options":    c.Worker("p", Discord),
		"Layout.Time is 0, must be 1 to 62":            c.Worker("q", Layout{}),
		"Layout.Worker is 17":                          c.Worker("q", Layout{Time: 40, Worker: 17}),
		"Layout.Counter is -1":                         c.Worker("q", Layout{Time: 40, Counter: -1}),
		"Layout.UnitMs is -1":                          c.Worker("q", Layout{Time: 40, UnitMs: -1}),
		"Layout.EpochMs is -1":                         c.Worker("q", Layout{Time: 40, EpochMs: -1}),
		"have 64 bits together, must have at most 63":  c.Worker("q", Layout{Time: 42, Worker: 10, Counter: 12}),
		"WithTTL is 25h0m0s, must be 1s to 24h0m0s":    c.Worker("q", Twitter, WithTTL(25*time.Hour)),
		"WithTTL is 1.5s, must be whole seconds":       c.Worker("q", Twitter, WithTTL(1500*time.Millisecond)),
	} {
		err := found.Err()
		_, callErr := found.Next(context.Background())
		_, isFound := found.TryNext()
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), text) || callErr != err || isFound {
			t.Errorf("error %v, must have %q; of a call %v, %v", err, text, callErr, isFound)
		}
	}
	for _, size := range []int{0, takeMax + 1} {
		for _, s := range []Source{c.Sequence("s"), c.Worker("p", Twitter)} {
			if err := s.Take(context.Background(), make([]int64, size)); !errors.Is(err, ErrUsage) {
				t.Error(err)
			}
			if err := s.WarmUp(context.Background(), size); !errors.Is(err, ErrUsage) {
				t.Error(err)
			}
		}
	}
	if _, err := New("getid://h", WithTimeout(-1)); !errors.Is(err, ErrUsage) {
		t.Error(err)
	}
	if _, err := New("getid://h", WithTimeout(25*time.Hour)); !errors.Is(err, ErrUsage) {
		t.Error(err)
	}
}

func TestObjectsOfAClientAreBounded(t *testing.T) {
	c, err := New("getid://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for len(c.core.objects) < objectsMax {
		c.core.objects = append(c.core.objects, newSequence(c.core, "s", sequenceOptions{}))
	}
	if err := c.Sequence("s").Err(); !errors.Is(err, ErrUsage) {
		t.Fatal(err)
	}
}

func TestSerializationFails(t *testing.T) {
	c, err := New("getid://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []any{c, *c, c.Sequence("s"), c.Worker("p", Twitter), struct{ S *Sequence }{c.Sequence("s")}} {
		if _, err := json.Marshal(object); !errors.Is(err, errNotSerializable) {
			t.Errorf("json: %v", err)
		}
		if err := gob.NewEncoder(&bytes.Buffer{}).Encode(object); err == nil {
			t.Error("gob encodes it")
		}
		if _, err := xml.Marshal(object); err == nil {
			t.Error("xml encodes it")
		}
	}
}

func TestManyObjectsBeginTheirJobsInOrder(t *testing.T) {
	c := &core{}
	c.clock = clock.NewFrozen(startMs)
	for _, due := range []int64{50, 10, 40, 20, 30} {
		q := newSequence(c, "s", sequenceOptions{})
		c.schedule(q, 100)
		c.schedule(q, due)
	}
	c.clock.Shift(0, 100)
	for last := int64(0); len(c.queue) > 0; c.isBusy = false {
		found, _ := c.takeDue(nil)
		if due := found.common().due; due != last+10 {
			t.Fatalf("due %d after %d", due, last)
		}
		last += 10
	}
}

func TestAFailedConnectGoesToTheNextAddress(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	server := startServer(t)
	c, err := New("getid://" + gone.Addr().String() + "," + server.address() + "?order=given")
	if err != nil {
		t.Fatal(err)
	}
	call := start(c.Sequence("s", WithPrefetchMax(0)))
	server.expect("SEQUENCE NEXT s COUNT 1").replyRange(1, 1, 1)
	wait(t, call).check(t, 1)
	if c.core.serial != 1 || c.Close(context.Background()) != nil {
		t.Fatal("more than one connection")
	}
}

func TestLoginIsSentFirst(t *testing.T) {
	server := startServer(t)
	c, err := New("getid://app:p%40ss@" + server.address())
	if err != nil {
		t.Fatal(err)
	}
	s := c.Sequence("s", WithPrefetchMax(0))
	call := start(s)
	server.expect("AUTH app p@ss").reply("-WRONGPASS no\r\n")
	if got := wait(t, call); !errors.Is(got.err, ErrRefused) || strings.Contains(got.err.Error(), "p@ss") {
		t.Fatal(got.err)
	}
	call = start(s)
	server.expect("AUTH app p@ss").reply("+OK\r\n")
	server.expect("SEQUENCE NEXT s COUNT 1").replyRange(1, 1, 1)
	wait(t, call).check(t, 1)
	c.Close(context.Background())
}

func TestAUnixSocket(t *testing.T) {
	path := t.TempDir() + "/s"
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := startServer(t)
	go func() {
		if connection, err := listener.Accept(); err == nil {
			server.read(connection)
		}
	}()
	os.Setenv("GETID_URL", "getid+unix://"+path)
	defer os.Unsetenv("GETID_URL")
	c, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	call := start(c.Sequence("s", WithPrefetchMax(0)))
	server.expect("SEQUENCE NEXT s COUNT 1").replyRange(1, 1, 1)
	wait(t, call).check(t, 1)
	c.Close(context.Background())
	listener.Close()
}
