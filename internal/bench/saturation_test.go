package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestSaturation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		rates [][mostNodes]float64 // of each round
		busy  float64              // of the cores, all in all
		nodes float64              // of the cores
		says  string
	}{
		{"every node helps", [][mostNodes]float64{{100, 150, 190}}, 0.5, 0.5, "still grows"},
		{"one node takes all cores", [][mostNodes]float64{{100, 105, 90}}, 0.95, 0.8, "saturates at 1 of the nodes. There the"},
		{"the cores are the bound", [][mostNodes]float64{{100, 105, 90}}, 0.95, 0.8, "what another node needs"},
		{"others have the cores", [][mostNodes]float64{{100, 105, 90}}, 0.95, 0.6, "others used much of them"},
		{"something else is the limit", [][mostNodes]float64{{100, 150, 151}}, 0.5, 0.5, "So the cores are not the limit"},
		{"what helps again later does not count", [][mostNodes]float64{{100, 101, 200}}, 0.95, 0.9, "saturates at 1 of"},
		{"rounds are compared each by itself", [][mostNodes]float64{{100, 150, 150}, {10, 15, 15}, {1000, 1500, 1500}}, 0.95, 0.9,
			"saturates at 2 of"},
		{"nobody knows", [][mostNodes]float64{{100, 101, 101}}, 0, 0, "is not known"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := &bench{samples: map[string][]sample{}}
			for _, round := range test.rates {
				for i, rate := range round {
					cores := float64(runtime.NumCPU()) * float64(time.Second)
					b.add(readThrough(i+1), sample{rate: rate, took: time.Second, spent: spent{
						servers: time.Duration(test.nodes * cores), machine: time.Duration(test.busy * cores),
					}})
				}
			}
			if text := b.saturation(readThrough); !strings.Contains(text, test.says) {
				t.Errorf("it says %q, want %q in it", text, test.says)
			}
		})
	}
}

func TestDatabaseBound(t *testing.T) {
	t.Parallel()
	b := &bench{samples: map[string][]sample{
		"insert": {{calls: 1000, spent: spent{database: 50 * time.Millisecond}}},
		createThrough(1): {{calls: 100, spent: spent{database: 6 * time.Millisecond}},
			{calls: 100, spent: spent{database: 14 * time.Millisecond}}},
	}}
	const want = "takes 100 µs, and an insert of `pgbench` 50 µs"
	if text := b.databaseBound(); !strings.Contains(text, want) || !strings.Contains(text, "about 0.50 of") {
		t.Errorf("it says %q, want %q and 0.50 in it", text, want)
	}
	b.samples["insert"][0].spent.database = 0
	if text := b.databaseBound(); text != "" {
		t.Errorf("of a database whose CPU is not known it says %q", text)
	}
}

func TestReadStat(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "stat")
	const line = "42 (a (b) c) S 7 42 42 0 -1 4194304 100 0 0 0 11 12 13 14 20 0 1 0 100\n"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	want := stat{id: 42, parent: 7, name: "a (b) c", own: 230 * time.Millisecond, ended: 270 * time.Millisecond}
	if got, ok := readStat(path); !ok || got != want {
		t.Errorf("the process is read as %+v, %v, want %+v", got, ok, want)
	}
	if _, ok := readStat(path + " is not there"); ok {
		t.Error("a process that has ended is read")
	}
}
