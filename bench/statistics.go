package bench

import (
	"math"
	"slices"
)

// Spread is what several rounds gave.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf sums samples up; zero if there is none.
func spreadOf(samples []float64) Spread {
	if len(samples) == 0 {
		return Spread{}
	}
	return Spread{Median: median(samples), Min: slices.Min(samples), Max: slices.Max(samples)}
}

// median is the middle one, or the mean of the middle two; 0 of none.
func median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// ratios divides round by round.
func ratios(measured, reference []float64) []float64 {
	r := make([]float64, 0, len(measured))
	for i := range min(len(measured), len(reference)) {
		if reference[i] != 0 {
			r = append(r, measured[i]/reference[i])
		}
	}
	return r
}

// exactMax is up to how many samples together the rank test counts every
// arrangement; beyond, it takes the normal approximation.
const exactMax = 60

// rankTest is the two-sided Mann-Whitney test: how likely samples that are at
// least as far apart come from one distribution. Ties are counted half.
func rankTest(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	ranks := doubledRanks(a, b)
	sum := 0
	for _, r := range ranks[:len(a)] {
		sum += r
	}
	if len(ranks) <= exactMax {
		return exactTest(ranks, len(a), sum)
	}
	return normalTest(ranks, len(a), sum)
}

// doubledRanks are twice the ranks of a, then of b, in both together: with
// ties, ranks are halves.
func doubledRanks(a, b []float64) []int {
	all := slices.Concat(a, b)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case all[i] < all[j]:
			return -1
		case all[i] > all[j]:
			return 1
		}
		return 0
	})
	ranks := make([]int, len(all))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && all[order[to]] == all[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			ranks[i] = from + 1 + to // twice the mean of from+1 … to
		}
		from = to
	}
	return ranks
}

// exactTest counts, of all ways to choose n of the ranks, those whose sum is at
// least as far from the mean.
func exactTest(ranks []int, n, sum int) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	// ways[k][s]: how many choices of k ranks have the sum s.
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k > 0; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	mean := float64(total) * float64(n) / float64(len(ranks))
	far := math.Abs(float64(sum)-mean) - 1e-9
	all, extreme := 0.0, 0.0
	for s, w := range ways[n] {
		all += w
		if math.Abs(float64(s)-mean) >= far {
			extreme += w
		}
	}
	return extreme / all
}

// normalTest takes the sum of ranks for normally distributed.
func normalTest(ranks []int, n, sum int) float64 {
	m, count := float64(len(ranks)-n), float64(len(ranks))
	mean := (count + 1) / 2
	squares := 0.0
	for _, r := range ranks {
		d := float64(r)/2 - mean
		squares += d * d
	}
	variance := float64(n) * m / (count * (count - 1)) * squares
	if variance == 0 {
		return 1
	}
	z := math.Max(0, math.Abs(float64(sum)/2-float64(n)*mean)-0.5) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}
