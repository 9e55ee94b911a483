package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/server"
)

// listeners are the addresses of a server process. It prints them as soon as
// it listens.
type listeners struct {
	Public     string
	Unrecorded string // the same region without the API log
	Control    string // metrics, profiles and resource usage
}

// usage is the resource usage of a process so far.
type usage struct {
	CPU  time.Duration
	Peak int64 // maximum resident memory in bytes
}

// transition is how long the driver takes for a change, such as creating a
// disk.
const transition = 200 * time.Millisecond

// serveEcho serves the yardstick: net/http and nothing else.
func serveEcho() error {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has disconnected
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	return serve(map[string]http.Handler{
		"Public":  echo,
		"Control": server.Admin(server.AdminOptions{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }}),
	})
}

// serveRegion serves a region as bastide does, except for throttling and
// quotas, which would get in the way.
func serveRegion(ctx context.Context, args []string) (err error) {
	var data, database string
	var c contents
	flags := flag.NewFlagSet("region", flag.ContinueOnError)
	flags.StringVar(&data, "data", "", "`DIR` of the store")
	flags.StringVar(&database, "postgres", "", "`URL` of a database that nodes share, instead of that store")
	c.define(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	region.TuneCollector()
	r, err := region.Open(ctx, region.Options{
		Data: data, Postgres: database, Region: regionName, Domain: "bastide.localhost", Transitions: transition, Driver: sim.Start(transition),
		Quotas: map[string]int{},
		Root:   region.Root{AccountID: string(accountID(0)), AccessKey: accessKey(0), SecretKey: secretKey, Password: secretKey},
		Clock:  clock.System(), Rand: rand.Reader, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if r.Founded != nil {
		if err := c.fill(ctx, r.DB); err != nil {
			return err
		}
		// The loops look at all of it once. Neither that nor the garbage of
		// creating it may be measured.
		if _, err := r.Loops.WaitIdle(ctx); err != nil {
			return err
		}
		runtime.GC()
	}
	unrecorded := r.Handler.(*server.Server).Options
	unrecorded.Log = nil
	return serve(map[string]http.Handler{"Public": r.Handler, "Unrecorded": server.New(unrecorded), "Control": r.Admin})
}

// serve serves each handler on its own listener until the standard input ends,
// at the latest with the process that started this one.
func serve(handlers map[string]http.Handler) error {
	failed := make(chan error, len(handlers)+1)
	addresses := map[string]string{}
	for name, h := range handlers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addresses[name] = l.Addr().String()
		if name == "Control" {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /usage", serveUsage)
			mux.Handle("/", h)
			h = mux
		}
		go func() { failed <- server.HTTP(h, time.Now).Serve(server.CutStalled(l, time.Now)) }()
	}
	if err := json.NewEncoder(os.Stdout).Encode(addresses); err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	return <-failed
}

func serveUsage(w http.ResponseWriter, _ *http.Request) {
	self, err := ownUsage()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// The client notices a response that cannot be written.
	_ = json.NewEncoder(w).Encode(self)
}

// ownUsage returns the resource usage of this process.
func ownUsage() (usage, error) {
	var self syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &self)
	return usage{
		CPU:  time.Duration(self.Utime.Nano() + self.Stime.Nano()),
		Peak: self.Maxrss << 10, // Linux counts KiB
	}, err
}
