// One process leads; when it ends, or loses the lock, the next one takes over.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"time"

	rlock "rlock.invalid/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	url := cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6399")
	client, err := rlock.Connect(ctx, url, rlock.Options{Lease: 10 * time.Second, OnEvent: func(event rlock.Event) {
		if event.Kind == rlock.Lost {
			log.Println("lost:", event.Lock, event.Why)
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Lock("leader", rlock.Fenced()).Run(ctx, lead)
	if errors.Is(err, rlock.ErrLost) {
		fmt.Println("no longer the leader")
	} else if err != nil {
		log.Println(err)
	}
}

// lead ends with its context: at the loss of the lock, or at Ctrl-C.
func lead(ctx context.Context, held *rlock.Held) error {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("ROUNDS"), "3"))
	if err != nil {
		return err
	}
	for round := range rounds {
		fmt.Println("leading, round", round+1, "with a token:", held.Token() > 0)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
