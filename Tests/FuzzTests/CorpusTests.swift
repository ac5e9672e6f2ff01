import Bytes
import Foundation
import Fuzz
import Testing

/// Runs every fuzz target in the test process. A target that traps ends the process, and the last line of output names
/// the input. `Tests/Fuzz/fuzz` runs the same targets with libFuzzer and the address sanitizer.
@Suite(.serialized) struct CorpusTests {
    static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fuzz/Corpus")
    /// The maximum number of altered inputs of each target.
    static let mutations = 2_000

    private static func corpus(_ target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
        let folder = folder.appending(path: target.name)
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        return try files.sorted { $0.path < $1.path }.map {
            ($0.lastPathComponent, [UInt8](try Data(contentsOf: $0)))
        }
    }

    /// Prints the name of an input before it is run, because a trap ends the process.
    private static func say(_ input: String) {
        FileHandle.standardError.write(Data("fuzz input: \(input)\n".utf8))
    }

    /// The corpora include inputs that once crashed. Each input is also run without its last byte and its second half.
    @Test(arguments: FuzzTarget.all)
    func `No input of the corpus makes its target trap`(target: FuzzTarget) throws {
        let corpus = try Self.corpus(target)
        #expect(corpus.count >= 3, "\(target.name) has no corpus")
        for (name, bytes) in corpus {
            for count in [bytes.count, max(0, bytes.count - 1), bytes.count / 2] {
                Self.say("\(target.name)/\(name), \(count) bytes of it")
                Array(bytes[..<count]).withUnsafeBytes { target.run($0) }
            }
        }
    }

    @Test(arguments: FuzzTarget.all)
    func `No altered input of the corpus makes its target trap`(target: FuzzTarget) throws {
        let corpus = try Self.corpus(target).map(\.bytes)
        let seed = ProcessInfo.processInfo.environment["APNS_WORKER_FUZZ_SEED"].flatMap { UInt64($0) } ?? 1
        Self.say("\(target.name), altered, APNS_WORKER_FUZZ_SEED=\(seed)")
        var random = SplitMix64(seed: seed)
        let deadline = ContinuousClock.now + .seconds(2)
        for _ in 0..<Self.mutations where ContinuousClock.now < deadline {
            var bytes = corpus.randomElement(using: &random)!
            for _ in 0...Int.random(in: 0..<4, using: &random) { alter(&bytes, corpus, &random) }
            bytes.withUnsafeBytes { target.run($0) }
        }
    }

    private func alter(_ bytes: inout [UInt8], _ corpus: [[UInt8]], _ random: inout SplitMix64) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        let odd: [UInt8] = [0, 1, 0x0A, 0x1F, 0x22, 0x5C, 0x7F, 0x80, 0xC3, 0xFE, 0xFF]
        switch Int.random(in: 0..<6, using: &random) {
        case 0: bytes.insert(.random(in: 0...255, using: &random), at: place)
        case 1: if place < bytes.count { bytes[place] = odd.randomElement(using: &random)! }
        case 2: if place < bytes.count { bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random) }
        case 3: if place < bytes.count { bytes.remove(at: place) }
        case 4: bytes.replaceSubrange(place..., with: corpus.randomElement(using: &random)!.suffix(200))
        default:
            let end = Int.random(in: place...min(bytes.count, place + 100), using: &random)
            bytes.insert(contentsOf: Array(bytes[place..<end]), at: Int.random(in: 0...bytes.count, using: &random))
        }
    }

    /// The tests do not replay a folder without a target.
    @Test func `Each folder of the corpus has a target, and each target a folder`() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(Set(names) == Set(FuzzTarget.all.map(\.name)))
    }
}
