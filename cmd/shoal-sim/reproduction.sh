#!/bin/sh
# Remakes the CSV files of docs/reproduction: sh reproduction.sh SHOAL-SIM DIR DOCS [SEEDS]. Each run writes one file to DIR; a run whose file
# is there is not made again, so this may be stopped and started. After each group of runs its files are joined into one in DOCS, which names
# the command of every run. LATENCY, RIPE, CHANGES, CNR and CALIFORNIA name the real data; runs without their data are left out, and it says
# so. ONLY=recrawl (or ordering, optimal, cycle, overlay, trust) makes the files of one page.
set -eu
sim=$1 dir=$2 docs=$3 seeds=${4:-5}
mkdir -p "$dir" "$docs"

# run NAME ARGS: one run
run() {
	to=$dir/$1.csv
	name=$1
	shift
	names="$names $name"
	if [ -s "$to" ]; then return; fi
	echo "shoal-sim $*" >&2
	said=
	for word in "$@"; do # data files by their name alone
		case $word in /*) word=${word##*/} ;; esac
		said="$said $word"
	done
	{ echo "# $name: shoal-sim$said"; "$sim" "$@" --csv; } > "$to.part"
	mv "$to.part" "$to"
}

# group FILE: begins a file of docs/reproduction; done joins its runs
group() { file=$1 names=; }
done_() {
	if [ -z "$names" ]; then return; fi
	{
		for name in $names; do sed -n 1p "$dir/$name.csv"; done
		echo "run,what,figure,value,sd,n"
		for name in $names; do sed "1,2d; s/^/$name,/" "$dir/$name.csv"; done
	} > "$docs/$file.csv.part"
	mv "$docs/$file.csv.part" "$docs/$file.csv"
}

# figure NAME FILE ARGS: the drawing of a page, NAME.svg, which a run with --plot leaves as FILE
figure() {
	svg=$dir/$1.svg from=$2 page=$1
	shift 2
	if [ ! -s "$svg" ]; then
		echo "shoal-sim $*" >&2
		"$sim" "$@" --plot "$dir/figures" > /dev/null
		cp "$dir/figures/$from" "$svg"
	fi
	cp "$svg" "$docs/$page.svg"
}

wanted() { [ -z "${ONLY:-}" ] || [ "$ONLY" = "$1" ]; }
lacks() { echo "$1 is not set: no runs on $2" >&2; }

main=fixed,iir,icr,price

recrawl() {
	group recrawl-paper
	for case in rec ruc; do
		run tables-$case recrawl --case $case --strategy fixed,iir,icr --seeds "$seeds"
		if [ -n "${LATENCY:-}" ]; then run tables-$case-king recrawl --case $case --strategy fixed,iir,icr --seeds "$seeds" --latency "$LATENCY"; fi
	done
	[ -n "${LATENCY:-}" ] || lacks LATENCY "the King embedding"
	run ruc-literal recrawl --case ruc-literal --steps 20000 --seeds 3 --strategy $main
	done_

	# every cell: case, mode, rates, cap, number out, weights; full size and a quarter of it
	for size in quarter full; do
		group recrawl-cells-$size
		for case in rec ruc shock; do
			some= steps=
			if [ $size = quarter ]; then
				some="--channels 4000 --crawlers 700"
				if [ $case = rec ]; then some="--channels 4000 --crawlers 350"; fi
			fi
			n=$seeds
			if [ $size = full ] || [ $case = shock ]; then n=2; fi
			if [ $case != shock ]; then steps="--steps 20000"; fi
			for rates in known learnt; do
				for cap in 2 0; do
					for weights in equal pages; do
						cell="--case $case --rates $rates --cap $cap --weights $weights --strategy $main --seeds $n"
						# shellcheck disable=SC2086 # the words of $cell, $some and $steps are flags
						{
							run $size-$case-shoal-$rates-cap$cap-$weights recrawl --mode shoal $cell $steps $some
							run $size-$case-paper-$rates-cap$cap-out1-$weights recrawl --mode paper --out 1 $cell $steps $some
							run $size-$case-paper-$rates-cap$cap-out3-$weights recrawl --mode paper --out 3 $cell $steps $some
						}
					done
				done
			done
		done
		if [ $size = full ]; then
			run full-rec-paper-known-cap0-any-equal recrawl --case rec --mode paper --cap 0 --steps 20000 --seeds "$seeds" --strategy $main
			run full-rec-paper-known-cap0-any-pages recrawl --case rec --mode paper --cap 0 --weights pages --steps 20000 --seeds "$seeds" --strategy $main
			run full-rec-paper-known-cap0-any-long recrawl --case rec --mode paper --cap 0 --seeds "$seeds" --strategy $main
		fi
		done_
	done

	# the experiment's own 100,000 minutes
	group recrawl-long
	for case in rec ruc; do
		crawlers=700
		if [ $case = rec ]; then crawlers=350; fi
		for rates in known learnt; do
			run long-$case-$rates-shoal recrawl --case $case --rates $rates --cap 2 --channels 4000 --crawlers $crawlers --seeds "$seeds" --strategy $main --mode shoal
			run long-$case-$rates-paper recrawl --case $case --rates $rates --cap 2 --channels 4000 --crawlers $crawlers --seeds "$seeds" --strategy $main --mode paper --out 1
			run long-full-$case-$rates-shoal recrawl --case $case --rates $rates --cap 2 --seeds 1 --strategy $main --mode shoal
		done
	done
	run ten-fold-shoal recrawl --case ruc --cap 2 --steps 20000 --seeds 3 --strategy price --mode shoal --crawlers 28000
	run ten-fold-paper recrawl --case ruc --cap 2 --steps 20000 --seeds 3 --strategy price --mode paper --out 1 --crawlers 28000
	done_

	group recrawl-ablations
	for case in rec ruc; do
		crawlers=700
		if [ $case = rec ]; then crawlers=350; fi
		short="--case $case --steps 10000 --channels 4000 --crawlers $crawlers"
		# shellcheck disable=SC2086 # the words of $short and $how are flags
		{
			for mode in shoal paper; do
				how="--mode $mode --out 1"
				run ablation-$case-$mode recrawl $short $how --cap 2 --strategy price
				run ablation-$case-$mode-cap1 recrawl $short $how --cap 1 --strategy fixed,price
				for without in cost survival corners; do
					run ablation-$case-$mode-no-$without recrawl $short $how --cap 2 --strategy price --no-$without
				done
			done
			for out in 2 3 4 5; do
				run ablation-$case-paper-out$out recrawl $short --mode paper --out $out --cap 2 --strategy price
			done
			run ablation-$case-paper-cap8-out5 recrawl $short --mode paper --out 5 --cap 8 --strategy price
			run others-$case recrawl $short --mode shoal --cap 2 --strategy uniform,proportional,lambda,adaptive,cycle,optimal,price
			run others-$case-stormcrawler recrawl $short --mode shoal --cap 2 --strategy adaptive --rule stormcrawler
			if [ -n "${CHANGES:-}" ]; then
				run real-$case recrawl $short --mode shoal --cap 2 --rates learnt --changes "$CHANGES" --strategy $main
			fi
		}
	done
	[ -n "${CHANGES:-}" ] || lacks CHANGES "real changes"
	done_

	group recrawl-sweeps
	run sweep-load sweep --vary load --values .3,.6,1,1.6,2.5,4 --channels 4000 --crawlers 700 --steps 3000 --cap 2
	run sweep-crawlers sweep --vary crawlers --values 200,700,2000,7000,20000 --channels 16000 --steps 1500 --cap 2
	run sweep-life sweep --vary life --values 100,300,1000,3000,10000 --channels 4000 --crawlers 700 --steps 3000 --cap 2
	run sweep-channels sweep --vary channels --values 1000,3000,10000,30000,100000,300000 --crawlers 2800 --steps 500 --cap 2
	done_
	figure recrawl ruc-shoal-freshness.svg recrawl --case ruc --cap 2 --mode shoal --rates learnt --channels 4000 --crawlers 700 --strategy $main
}

ordering() {
	group ordering
	if [ -n "${CNR:-}" ]; then run ordering-cnr ordering --graph "$CNR" --runs "$seeds"; else lacks CNR "cnr-2000"; fi
	if [ -n "${CALIFORNIA:-}" ]; then run ordering-california ordering --graph "$CALIFORNIA" --seeds 1 --runs "$seeds"; else lacks CALIFORNIA "california"; fi
	run ordering-synthetic ordering --runs "$seeds"
	if [ -n "${CNR:-}" ]; then
		figure ordering ordering-cnr-2000-figure-4.svg ordering --graph "$CNR" --ordering breadth-first --ordering opic --ordering larger-sites-first --ordering historical-parent --ordering omniscient --ordering random
	fi
	for robots in 4 8 16 50; do
		run ordering-time-$robots ordering --robots $robots --wait 5s --wait-small 15s --ordering breadth-first --ordering larger-sites-first --runs "$seeds"
	done
	done_
}

optimal() {
	group optimal
	run allocate-mixed allocate --n 100000 --r 500000 --no-twin --figures
	run allocate-small allocate --n 2000 --r 5000 --no-twin --figures
	run timetable-even timetable
	run timetable-i timetable --ideal even
	run timetable-random timetable --ideal random
	figure optimal allocate-figure-8a.svg allocate --n 20000 --r 100000 --no-twin
	for case in rec ruc; do
		crawlers=700
		if [ $case = rec ]; then crawlers=350; fi
		for rates in known learnt; do
			run optimal-$case-$rates recrawl --case $case --rates $rates --mode shoal --cap 2 --steps 20000 --channels 4000 --crawlers $crawlers --strategy optimal,uniform,proportional,cycle
		done
	done
	done_
}

cycle() {
	group cycle
	run cycle-both cycle --rates both
	run cycle-stale cycle --version 1 --stale 0.015
	done_
	figure cycle cycle-figure-4-power.svg cycle
}

overlay() {
	group overlay
	for peers in 1400 2800; do
		if [ -n "${RIPE:-}" ]; then run overlay-ripe-$peers overlay --latency "$RIPE" --peers $peers --tasks 1500 --churn paper --seeds "$seeds"; fi
		if [ -n "${LATENCY:-}" ]; then run overlay-king-$peers overlay --latency "$LATENCY" --peers $peers --tasks 1500 --churn paper --seeds "$seeds"; fi
	done
	if [ -n "${RIPE:-}" ]; then
		run overlay-ripe-churn overlay --overlay rings --latency "$RIPE" --peers 300 --hosts 2000 --tasks 300 --churn x17 --seeds "$seeds"
		figure overlay nearness.svg overlay --latency "$RIPE" --peers 300 --hosts 1000 --tasks 200
	else
		lacks RIPE "RIPE's matrix"
	fi
	done_

	group overlay-liars
	for places in ripe king made-up; do
		latency=
		case $places in
		ripe) latency=${RIPE:-} ;;
		king) latency=${LATENCY:-} ;;
		esac
		if [ $places != made-up ] && [ -z "$latency" ]; then continue; fi
		for lie in none far middle high; do
			set -- overlay --overlay rings --peers 300 --hosts 2000 --tasks 60 --seeds "$seeds"
			if [ -n "$latency" ]; then set -- "$@" --latency "$latency"; fi
			if [ $lie != none ]; then set -- "$@" --liars .1 --lie $lie; fi
			run liars-$places-$lie "$@"
		done
	done
	done_

	if [ -n "${RIPE:-}" ]; then
		group overlay-load
		for load in .3 .6 1 1.6 2.5 4; do
			run overlay-load-$load overlay --latency "$RIPE" --overlay rings --peers 100 --hosts 1000 --settle 20m --for 40h --churn paper --load $load --seeds "$seeds"
		done
		done_
	fi

	group overlay-scale
	for peers in 100 300 1000 3000; do
		run overlay-scale-$peers overlay --overlay rings --hosts 2000 --tasks 100 --settle 20m --peers $peers
	done
	done_
}

trust() {
	group trust
	for attack in lazy fabricating subtle-0.1 subtle-1 subtle-10 sleeping colluding slandering one-host hiding sybils; do
		run trust-$attack trust --full --attack $attack --seeds "$seeds" --f 0.1,0.3
	done
	run trust-one-host-more trust --full --attack one-host --seeds 20
	run trust-trouble trust --full --trouble 3 --attack lazy,subtle-1,slandering --seeds 2
	run trust-trouble-learnt trust --full --trouble 3 --learn --attack lazy,subtle-1,slandering --seeds 2
	run trust-parts trust --defence every
	done_
}

for page in recrawl ordering optimal cycle overlay trust; do
	if wanted $page; then $page; fi
done
