/// The version that `--version` prints.
let version = "0.1.0"
