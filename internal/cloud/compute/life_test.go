package compute

import "testing"

// The tables that the loops go by are whole.
func TestLives(t *testing.T) {
	t.Parallel()
	for _, l := range []struct {
		of   string
		life interface{ Check() error }
	}{
		{"VM", vmLife},
		{"VM group", vmGroupLife},
		{"Volume", drawn{volumeLife}},
		{"Volume on a VM", drawn{volumeLinkLife}},
		{"Update of a volume", drawn{volumeUpdateLife}},
		{"Snapshot", drawn{snapshotLife}},
		{"Image", drawn{imageLife}},
		{"Export of an image", imageExportLife},
		{"Export of a snapshot", snapshotExportLife},
		{"Flexible GPU", gpuLife},
	} {
		if err := l.life.Check(); err != nil {
			t.Errorf("%s: %v", l.of, err)
		}
	}
}
