// Package getid returns unique IDs and sequence values of a getid server in process: a call takes a value out of
// memory, and the server's promises hold.
//
//	client, err := getid.New("getid://127.0.0.1:7890")
//	orders := client.Sequence("orders")
//	value, err := orders.Next(ctx)                     // 1
//	worker := client.Worker("orders", getid.Twitter)
//	id, err := worker.Next(ctx)                        // 2126559228578496512
//
// A Sequence fetches ranges of values ahead of the calls. A Worker leases a worker id and makes IDs with it. No value
// comes twice, whatever ends in between, and values of one object ascend. A value that was fetched and not used is a
// gap. Values of different objects or programs have no order between them.
//
// Package getidtest has fakes for unit tests without a server.
package getid
