// A job that several machines start at the same time, and one of them runs.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	rlock "rlock.invalid/client"
)

func main() {
	ctx := context.Background()
	client, err := rlock.Connect(ctx, cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6399"), rlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	held, err := client.Lock("nightly-report").TryAcquire(ctx)
	switch {
	case errors.Is(err, rlock.ErrDenied):
		fmt.Println("another machine writes the report")
	case err != nil:
		log.Println(err)
	default:
		defer held.Release(ctx)
		fmt.Println("this machine writes the report")
	}
}
