package main

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	panelWidth   = 11 * vg.Centimeter
	panelHeight  = 8 * vg.Centimeter
	panelColumns = 2
)

// palette has a colour for each implementation that can be told apart by people
// who see colours differently (Okabe and Ito's); the dashes are for the rest.
var palette = []color.RGBA{
	{0x00, 0x00, 0x00, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x72, 0xb2, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0x99, 0x99, 0x99, 0xff},
}

// draw writes the latency distributions of all workloads into a file: a panel
// each, with the part of the callers who waited longer on one axis and how long
// on the other, both logarithmic, so that the tail can be seen.
func (b *bench) draw(path string) (err error) {
	var panels []*plot.Plot
	for _, w := range b.opts.workloads {
		p, err := b.panel(w)
		if err != nil {
			return err
		}
		if p != nil {
			panels = append(panels, p)
		}
	}
	if len(panels) == 0 {
		return errors.New("nothing to draw")
	}
	legend, err := b.legend()
	if err != nil {
		return err
	}
	panels = append(panels, legend)
	columns := min(panelColumns, len(panels))
	rows := (len(panels) + columns - 1) / columns
	width, height := panelWidth*vg.Length(columns), panelHeight*vg.Length(rows)

	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if filepath.Ext(path) == ".png" {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))}
	} else {
		canvas = vgsvg.New(width, height)
	}
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, columns)
		copy(grid[i], panels[i*columns:min((i+1)*columns, len(panels))])
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: vg.Millimeter * 4, PadY: vg.Millimeter * 4}
	for i, line := range plot.Align(grid, tiles, draw.New(canvas)) {
		for j, c := range line {
			if grid[i][j] != nil {
				grid[i][j].Draw(c)
			}
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

// panel is nil if there is nothing in it.
func (b *bench) panel(w workload) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s: %s", w.Name, w.Title)
	p.Title.TextStyle.Font.Size = vg.Points(10)
	p.X.Label.Text = "percentile"
	p.X.Label.TextStyle.Font.Size = vg.Points(9)
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, durationTicks{}
	p.X.Tick.Marker = percentileTicks
	p.Add(plotter.NewGrid())
	empty := true
	for i, impl := range implementations {
		var all histogram
		for _, s := range b.samples[cell{w.Name, impl.name}] {
			all.merge(s.total)
		}
		if all.total == 0 {
			continue
		}
		line, err := impl.line(i, curve(&all))
		if err != nil {
			return nil, err
		}
		p.Add(line)
		empty = false
	}
	if empty {
		return nil, nil
	}
	return p, nil
}

// legend is a panel with nothing but the names. It would cover lines in any of
// the others.
func (b *bench) legend() (*plot.Plot, error) {
	p := plot.New()
	p.HideAxes()
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size, p.Legend.Padding = vg.Points(10), vg.Points(4)
	for i, impl := range implementations {
		if !slices.ContainsFunc(b.opts.impls, func(o implementation) bool { return o.name == impl.name }) {
			continue
		}
		line, err := impl.line(i, plotter.XYs{{X: 0, Y: 0}, {X: 1, Y: 1}})
		if err != nil {
			return nil, err
		}
		name := impl.name
		if impl.mark != "" {
			name += " (" + impl.mark + ")"
		}
		p.Legend.Add(name, line)
	}
	return p, nil
}

// line is how implementation i is drawn.
func (impl implementation) line(i int, points plotter.XYs) (*plotter.Line, error) {
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = palette[i%len(palette)], vg.Points(1)
	if impl.kind == ours {
		line.Width = vg.Points(2.5)
	}
	if impl.kind == another {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
	}
	return line, nil
}

// curve has a step for each bucket that has something in it: how far out it is,
// and its duration. It ends where there is one sample for what is beyond, and at
// 99.99 % in any case.
func curve(h *histogram) (points plotter.XYs) {
	end := min(math.Log10(float64(h.total)+1), lastNine)
	var seen uint64
	for i, n := range h.counts {
		if n == 0 {
			continue
		}
		before := nines(float64(seen) / float64(h.total))
		seen += n
		after := min(nines(float64(seen)/float64(h.total)), end)
		us := max(float64(min(upper(i), h.max))/float64(time.Microsecond), 0.001)
		points = append(points, plotter.XY{X: before, Y: us}, plotter.XY{X: after, Y: us})
		if after == end {
			break
		}
	}
	return points
}

const lastNine = 4.0

// nines is how far out in the tail a share is: 0.9 is at 1, 0.99 at 2, 1 nowhere.
func nines(share float64) float64 { return -math.Log10(1 - share) }

var percentileTicks = plot.ConstantTicks{
	{Value: 0, Label: "0"}, {Value: nines(0.5), Label: "50"}, {Value: 1, Label: "90"},
	{Value: 2, Label: "99"}, {Value: 3, Label: "99.9"}, {Value: lastNine, Label: "99.99"},
}

// durationTicks marks the powers of ten of a microsecond, and names them.
type durationTicks struct{}

func (durationTicks) Ticks(least, most float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		us := math.Pow(10, e)
		ticks = append(ticks, plot.Tick{Value: us, Label: time.Duration(us * float64(time.Microsecond)).String()})
		for _, part := range []float64{2, 5} {
			ticks = append(ticks, plot.Tick{Value: part * us})
		}
	}
	return ticks
}
