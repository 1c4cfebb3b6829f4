// Before the functions of two sections of docs/clients/go.md: two clients whose schedulers start a job every second run it once, and metrics.
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
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	rlock "rlock.invalid/client"
)

func main() {
	ctx := context.Background()
	reader := sdk.NewManualReader()
	onEvent, err := observe(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("rlock"))
	must(err)
	var runs, ticks atomic.Int32
	for range 2 {
		client, err := rlock.Connect(ctx, os.Getenv("REDIS_URL"), rlock.Options{OnEvent: onEvent})
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
	var collected metricdata.ResourceMetrics
	must(reader.Collect(ctx, &collected))
	counts := map[string]uint64{}
	for _, point := range collected.ScopeMetrics[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints {
		kind, _ := point.Attributes.Value("kind")
		counts[kind.AsString()] = point.Count
	}
	fmt.Println("events:", counts)
	if counts["acquired"] != 1 || counts["released"] != 1 || counts["denied"] < 3 {
		log.Panic("not as measured")
	}
}

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}
