package main

import "testing"

func TestByteSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]byteSize{
		"20GiB": 20 << 30, "512MiB": 512 << 20, "16384 KiB": 16 << 20, "1TiB": 1 << 40, "1TB": 1e12, "20GB": 20e9, "17000kB": 17e6,
		"20000000B": 2e7, "20000000": 2e7,
	} {
		var got byteSize
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
		var again byteSize
		if err := again.Set(got.String()); err != nil || again != got {
			t.Errorf("%s is written as %s, which is %d, %v", text, &got, again, err)
		}
	}
	for _, text := range []string{"", "GiB", "many", "-20GiB", "20Gib", "1.5GiB", "15MiB", "0", "5000000TiB", "20GiBB"} {
		got := byteSize(1)
		if err := got.Set(text); err == nil || got != 1 {
			t.Errorf("%q is taken for %d bytes", text, got)
		}
	}
}
