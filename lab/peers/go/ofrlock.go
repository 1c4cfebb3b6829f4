package main

import (
	"context"

	rlock "rlock.invalid/client"
)

func init() { ways["rlock-client"] = ofRlock }

func ofRlock(url string) (way, error) {
	client, err := rlock.Connect(context.Background(), url, rlock.Options{Lease: lease})
	return func(ctx context.Context, key string) (func() error, error) {
		held, err := client.Lock(key).Acquire(ctx)
		return func() error { return held.Release(ctx) }, err
	}, err
}
