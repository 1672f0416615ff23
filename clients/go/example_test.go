package getid_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	getid "getid.local/client"
)

func Example() {
	client, err := getid.New("getid://127.0.0.1:7890", getid.WithTimeout(2*time.Second))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer client.Close(ctx)
	orders := client.Sequence("orders")
	value, err := orders.Next(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(value)
}

func ExampleLayout_Parts() {
	parts := getid.Twitter.Parts(1541815603606036480)
	fmt.Println(parts.Time.Format(time.RFC3339Nano), parts.Worker, parts.Counter)
	// Output: 2022-06-28T16:07:40.105Z 378 0
}

func ExampleClient_Worker() {
	client, err := getid.New("getid://127.0.0.1:7890")
	if err != nil {
		panic(err)
	}
	own := getid.Layout{Time: 41, Worker: 60, Counter: 12}
	worker := client.Worker("orders", own)
	fmt.Println(worker.Err())
	// Output: getid: Layout.Worker is 60, must be 0 to 16
}

func ExampleError() {
	client, err := getid.New("getid://127.0.0.1:7890")
	if err != nil {
		panic(err)
	}
	client.Close(context.Background())
	_, err = client.Sequence("orders").Next(context.Background())
	var failure *getid.Error
	fmt.Println(errors.Is(err, getid.ErrClosed), errors.As(err, &failure), failure.Code == "")
	// Output: true true true
}
