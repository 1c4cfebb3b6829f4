package rlock

import (
	"fmt"
	"time"
)

// Info is a lock, as its server sees it.
type Info struct {
	// Kind is none, mutex, readwrite or permits.
	Kind string
	// Mode is read or write, of a readwrite lock that is held.
	Mode string
	// Lease is what is left of it: 0 if the lock is free, negative if it has no end.
	Lease time.Duration
	// Token is the last fencing token, or 0.
	Token                    int64
	HolderCount, WaiterCount int
	// Holders has at most 100.
	Holders []Holder
	// Queue has the waiters in order, at most 100.
	Queue []Waiter
}

// Holder is an owner that holds the lock.
type Holder struct {
	Owner, Mode string
	Holds       int
	Lease       time.Duration // negative if it has no end
	Session     int64         // the id of the connection that the hold is tied to, or 0
}

// Waiter is an owner in the queue of the lock.
type Waiter struct {
	Owner, Mode, Via string
	Age              time.Duration
	WaitLeft         time.Duration // negative: waits for ever
	ClientID         int64
}

// fields is a flat list of names and values, as RESP2 has maps. What is missing reads as nothing.
type fields map[string]any

func readFields(reply any) fields {
	list, _ := reply.([]any)
	read := fields{}
	pairs, _ := reply.(map[any]any) // as the driver reads it
	for name, value := range pairs {
		read[fmt.Sprint(name)] = value
	}
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		read[name] = list[i+1]
	}
	return read
}

// field is the zero value where the server says nothing, or something else.
func field[T any](from fields, name string) T {
	value, _ := from[name].(T)
	return value
}

func count(from fields, name string) int { return int(field[int64](from, name)) }

func lasts(from fields, name string) time.Duration {
	return time.Duration(field[int64](from, name)) * time.Millisecond
}

func readInfo(reply any) (Info, error) {
	read := readFields(reply)
	info := Info{
		Kind: field[string](read, "kind"), Mode: field[string](read, "mode"), Lease: lasts(read, "lease-ms"),
		Token: field[int64](read, "token"), HolderCount: count(read, "holder-count"), WaiterCount: count(read, "waiter-count"),
	}
	if info.Kind == "" {
		// It would read as a free lock.
		return Info{}, unexpected("RLOCK.INFO", reply)
	}
	if info.Lease == -2*time.Millisecond {
		info.Lease = 0
	}
	for _, each := range field[[]any](read, "holders") {
		holder := readFields(each)
		info.Holders = append(info.Holders, Holder{
			Owner: field[string](holder, "owner"), Mode: field[string](holder, "mode"), Holds: count(holder, "holds"),
			Lease: lasts(holder, "lease-ms"), Session: field[int64](holder, "session"),
		})
	}
	for _, each := range field[[]any](read, "queue") {
		waiter := readFields(each)
		info.Queue = append(info.Queue, Waiter{
			Owner: field[string](waiter, "owner"), Mode: field[string](waiter, "mode"), Via: field[string](waiter, "via"),
			Age: lasts(waiter, "age-ms"), WaitLeft: lasts(waiter, "wait-left-ms"), ClientID: field[int64](waiter, "client-id"),
		})
	}
	return info, nil
}
