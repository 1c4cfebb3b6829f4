// Before the functions of docs/clients/go.md, "Once in the cluster": two clients whose schedulers start the job every second run it once.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
	rlock "rlock.invalid/client"
)

func main() {
	ctx := context.Background()
	var runs, ticks atomic.Int32
	for range 2 {
		client, err := rlock.Connect(ctx, os.Getenv("REDIS_URL"), rlock.Options{})
		must(err)
		defer client.Close()
		jobs, err := schedule(ctx, client, func(*rlock.Held) { runs.Add(1) })
		must(err)
		defer jobs.Stop()
		_, err = jobs.AddFunc("@every 1s", func() { ticks.Add(1) })
		must(err)
	}
	time.Sleep(4 * time.Second)
	fmt.Println("the job ran", runs.Load(), "times of", ticks.Load())
	if runs.Load() != 1 || ticks.Load() < 4 {
		log.Panic("not once")
	}
}

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}
