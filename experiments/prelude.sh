# Sourced by each experiment's `run`: where things are, and what they have in common.
set -euo pipefail
experiment="$(basename "$(cd "$(dirname "$0")" && pwd)")"
cd "$(dirname "$0")/../.."
here="experiments/$experiment"
out="out/$experiment"
pilotage="${PILOTAGE:-.venv/bin/pilotage}"
python="${PYTHON:-.venv/bin/python}"

# A link to the public data, for scenario.yaml.
link_data() {
  ln -sfn "$(realpath "${PILOTAGE_DATA:?set it to the directory of the public data}")" "$here/data"
}

# Copies the tables of an evaluation from its directory beside this experiment, below a folder if one is named.
keep() {
  mkdir -p "$here/${2:-}"
  cp "$1/results.csv" "$1/summary.csv" "$1/cases.csv" "$1/verdicts.csv" "$here/${2:-}"
}

# Trains once: a run that was ended goes on, one that is finished stays. Its policy is in DIR/NAME/best.
train() { # AGENT DIR NAME OPTION...
  local agent="$1" directory="$2" name="$3"
  shift 3
  if [ -e "$directory/$name/summary.json" ]; then
    return
  elif [ -e "$directory/$name/settings.json" ]; then
    "$pilotage" train "$agent" --resume "$directory/$name"
  else
    "$pilotage" train "$agent" --out "$directory" --name "$name" "$@"
  fi
}
