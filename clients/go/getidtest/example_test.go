package getidtest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	getid "getid.local/client"
	"getid.local/client/getidtest"
)

// place is a function of a program: it takes any source of values.
func place(ctx context.Context, ids getid.Source) (string, error) {
	id, err := ids.Next(ctx)
	return fmt.Sprintf("order %d", id), err
}

func Example() {
	client := getidtest.New(1)
	orders := client.Sequence("orders")
	fmt.Println(place(context.Background(), orders))
	fmt.Println(place(context.Background(), orders))
	client.Fail(getid.ErrUnavailable)
	_, err := place(context.Background(), orders)
	fmt.Println(err)
	// Output:
	// order 1 <nil>
	// order 2 <nil>
	// getid: unavailable
}

func TestWorkerBeginsOneSecondAfterTheEpoch(t *testing.T) {
	for _, layout := range []getid.Layout{getid.Twitter, getid.Sonyflake} {
		worker := getidtest.New(1).Worker("pool", layout)
		var last int64
		for i := 0; i < 1<<layout.Counter+1; i++ {
			id, err := worker.Next(context.Background())
			if err != nil || id <= last {
				t.Fatalf("ID %d after %d, error %v", id, last, err)
			}
			if parts := layout.Parts(id); i == 0 && (parts.Time.UnixMilli() != layout.EpochMs+1000 || parts.Worker != 0) {
				t.Fatalf("the first ID has %+v", parts)
			}
			last = id
		}
		if parts := layout.Parts(last); parts.Counter != 0 {
			t.Fatalf("a full counter continues with %+v", parts)
		}
	}
}

func TestObjectsAreTheSameEachTimeAndEndAtClose(t *testing.T) {
	ctx := context.Background()
	client := getidtest.New(5)
	orders := client.Sequence("orders")
	if client.Sequence("orders") != orders || client.Worker("orders", getid.Twitter) == orders {
		t.Fatal("an object is one for its kind and name")
	}
	if value, isFound := orders.TryNext(); value != 5 || !isFound || orders.Values() != 1 {
		t.Fatalf("value %d, %v", value, isFound)
	}
	if err := orders.Take(ctx, nil); !errors.Is(err, getid.ErrUsage) {
		t.Fatal(err)
	}
	if err := orders.WarmUp(ctx, 0); !errors.Is(err, getid.ErrUsage) {
		t.Fatal(err)
	}
	if client.Discard(); client.Close(ctx) != nil || !errors.Is(orders.WarmUp(ctx, 1), getid.ErrClosed) {
		t.Fatal("a closed client must be ErrClosed")
	}
	if _, isFound := orders.TryNext(); isFound || orders.Err() != nil {
		t.Fatal("a closed client has no value")
	}
}

func TestGoroutinesShareAnObject(t *testing.T) {
	orders := getidtest.New(1).Sequence("orders")
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			orders.TryNext()
		}()
	}
	group.Wait()
	if value, _ := orders.TryNext(); value != 5 {
		t.Fatalf("value %d after four", value)
	}
}
