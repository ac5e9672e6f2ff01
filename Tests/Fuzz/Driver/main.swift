// `apns-fuzz TARGET [OPTION OF LIBFUZZER | FOLDER | FILE]…`. Without arguments it lists the targets.

import Fuzz
import Glibc

/// libFuzzer's own loop (`llvm/lib/Fuzzer/FuzzerDriver.cpp`).
@_silgen_name("LLVMFuzzerRunDriver")
func runFuzzer(
    _ count: UnsafeMutablePointer<CInt>,
    _ words: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ each: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

enum Chosen {
    static let target: FuzzTarget = {
        let name = CommandLine.arguments.dropFirst().first ?? ""
        guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
            print(FuzzTarget.all.map(\.name).joined(separator: "\n"))
            exit(name.isEmpty ? 0 : 2)
        }
        return target
    }()
}

/// The entry point that libFuzzer finds by its name.
@c(LLVMFuzzerTestOneInput)
func runOnce(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    Chosen.target.run(UnsafeRawBufferPointer(start: bytes, count: count))
    return 0
}

_ = Chosen.target
var count = CommandLine.argc - 1
var words = CommandLine.unsafeArgv + 1
exit(runFuzzer(&count, &words, runOnce))
