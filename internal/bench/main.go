// Command bench measures what a region costs, and writes the result down.
//
//	go run ./internal/bench -write docs/performance.md
//
// Absolute rates say more of the machine than of the program, so everything is
// compared with something that the same machine does in the same minute: a
// bare net/http server that echoes the same requests, or a bare write that
// waits for the disk. Rounds of short measurements take turns, and the median
// of the rounds counts. The servers are processes of their own, by this same
// program, so that their CPU time is theirs alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := dispatch(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "echo":
			return serveEcho()
		case "region":
			return serveRegion(ctx, args[1:])
		}
	}
	b := &bench{rounds: 9, each: time.Second, accounts: 1000}
	var quick bool
	var only, write, dir string
	flag.BoolVar(&quick, "quick", false, "one short round, and a tenth of the accounts")
	flag.StringVar(&only, "only", "", "measure one group only: `NAME` is serving, creating, dividing, machines, nodes or growing")
	flag.StringVar(&write, "write", "", "`FILE` to write the result to")
	flag.StringVar(&dir, "dir", "", "`DIR` to make the stores in, on the disk to be measured (default: the directory of temporary files, "+
		"where a throwaway PostgreSQL is in any case)")
	flag.StringVar(&b.profiles, "profile", "", "`DIR` for CPU profiles of the servers, one per measurement")
	flag.Parse()
	if quick {
		b.rounds, b.each, b.accounts = 1, time.Second/2, 100
	}
	if only != "" && write != "" {
		return errors.New("-write needs all measurements, and -only asks for some")
	}
	var err error
	if b.dir, err = os.MkdirTemp(dir, "bastide-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.measure(ctx, only); err != nil {
		return err
	}
	text := b.report()
	fmt.Print(text)
	if write == "" {
		return nil
	}
	return os.WriteFile(write, []byte(text), 0o644)
}
