#!/bin/sh
# Makes every table of docs/reproduction.md: sh reproduction.sh SHOAL DIR [SEEDS]. One text file a table; what is there already is not made again, so
# that it may be stopped. The file's first lines are the command. LATENCY and CHANGES name the King embedding and the Open Terms Archive's histories;
# without them their tables are left out, and it says so.
set -eu
shoal=$1 dir=$2 seeds=${3:-5}
mkdir -p "$dir"

run() {
	to=$dir/$1.txt
	shift
	if [ -s "$to" ]; then return; fi
	echo "shoal-sim $*"
	{ echo "shoal-sim $*"; echo; "$shoal" "$@"; } > "$to.part"
	mv "$to.part" "$to"
}

main=fixed,iir,icr,price
for case in rec ruc; do
	run tables-$case recrawl --case $case --strategy fixed,iir,icr --seeds "$seeds"
	if [ -n "${LATENCY:-}" ]; then
		run tables-$case-king recrawl --case $case --strategy fixed,iir,icr --seeds "$seeds" --latency "$LATENCY"
	fi
	run figures-$case recrawl --case $case --strategy $main --plot "$dir"
done
[ -n "${LATENCY:-}" ] || echo "LATENCY is not set: no table in the King embedding" >&2
run ruc-literal recrawl --case ruc-literal --steps 20000 --seeds 3 --strategy $main

# every cell: case, mode, rates, cap, number out, weights; full size ("") and a quarter of it
for size in quarter full; do
	for case in rec ruc shock; do
		some= steps=
		if [ $size = quarter ]; then
			some="--channels 4000 --crawlers 700"
			if [ $case = rec ]; then some="--channels 4000 --crawlers 350"; fi
		fi
		if [ $case != shock ]; then steps="--steps 20000"; fi
		for rates in known learnt; do
			for cap in 2 0; do
				for weights in equal pages; do
					# shellcheck disable=SC2086 # the words of $some and $steps are flags
					{
						cell="--case $case --rates $rates --cap $cap --weights $weights --strategy $main --seeds $seeds"
						run $size-$case-shoal-$rates-cap$cap-$weights recrawl --mode shoal $cell $steps $some
						run $size-$case-paper-$rates-cap$cap-out1-$weights recrawl --mode paper --out 1 $cell $steps $some
						run $size-$case-paper-$rates-cap$cap-out3-$weights recrawl --mode paper --out 3 $cell $steps $some
					}
				done
			done
		done
	done
done

for case in rec ruc; do
	crawlers=700
	if [ $case = rec ]; then crawlers=350; fi
	for rates in known learnt; do
		run long-$case-$rates-shoal recrawl --case $case --rates $rates --cap 2 --channels 4000 --crawlers $crawlers --seeds 3 --strategy $main --mode shoal
		run long-$case-$rates-paper recrawl --case $case --rates $rates --cap 2 --channels 4000 --crawlers $crawlers --seeds 3 --strategy $main --mode paper --out 1
	done
	short="--case $case --steps 10000 --channels 4000 --crawlers $crawlers"
	# shellcheck disable=SC2086 # the words of $short and $how are flags
	for mode in shoal paper; do
		how="--mode $mode --out 1"
		run ablation-$case-$mode recrawl $short $how --cap 2 --strategy price
		run ablation-$case-$mode-cap1 recrawl $short $how --cap 1 --strategy fixed,price
		for without in cost survival corners; do
			run ablation-$case-$mode-no-$without recrawl $short $how --cap 2 --strategy price --no-$without
		done
	done
	# shellcheck disable=SC2086
	{
		for out in 2 3 4 5; do
			run ablation-$case-paper-out$out recrawl $short --mode paper --out $out --cap 2 --strategy price
		done
		run ablation-$case-paper-cap8-out5 recrawl $short --mode paper --out 5 --cap 8 --strategy price
		run others-$case recrawl $short --mode shoal --cap 2 --strategy uniform,proportional,lambda,adaptive,price
		run others-$case-stormcrawler recrawl $short --mode shoal --cap 2 --strategy adaptive --rule stormcrawler
		if [ -n "${CHANGES:-}" ]; then
			run real-$case recrawl $short --mode shoal --cap 2 --rates learnt --changes "$CHANGES" --strategy $main
		fi
	}
done
[ -n "${CHANGES:-}" ] || echo "CHANGES is not set: no table of real changes" >&2
run ten-fold-shoal recrawl --case ruc --cap 2 --steps 20000 --seeds 3 --strategy price --mode shoal --crawlers 28000
run ten-fold-paper recrawl --case ruc --cap 2 --steps 20000 --seeds 3 --strategy price --mode paper --out 1 --crawlers 28000

run sweep-load sweep --vary load --values .3,.6,1,1.6,2.5,4 --channels 4000 --crawlers 700 --steps 3000 --cap 2
run sweep-crawlers sweep --vary crawlers --values 200,700,2000,7000,20000 --channels 16000 --steps 1500 --cap 2
run sweep-life sweep --vary life --values 100,300,1000,3000,10000 --channels 4000 --crawlers 700 --steps 3000 --cap 2
run sweep-channels sweep --vary channels --crawlers 2800 --steps 500 --cap 2
