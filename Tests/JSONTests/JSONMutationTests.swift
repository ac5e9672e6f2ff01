import Bytes
import Foundation
import JSON
import Testing

/// Whether Foundation accepts the bytes. It follows RFC 8259 only where `rulesAgree` is `true`.
private func foundationAccepts(_ bytes: [UInt8]) -> Bool {
    (try? JSONSerialization.jsonObject(with: Data(bytes), options: [.fragmentsAllowed])) != nil
}

/// Whether Foundation follows RFC 8259 for these bytes. Foundation accepts a comma before a closing bracket, rejects
/// numbers too large for it, and guesses UTF-16 and UTF-32.
private func rulesAgree(_ bytes: [UInt8]) -> Bool {
    if bytes.contains(0) || bytes.starts(with: [0xEF, 0xBB, 0xBF]) || bytes.starts(with: [0xFE, 0xFF]) {
        return false
    }
    if bytes.starts(with: [0xFF, 0xFE]) { return false }
    let text = String(decoding: bytes, as: UTF8.self)
    return text.range(of: #",\s*[\]}]"#, options: .regularExpression) == nil
        && text.range(of: #"[0-9]{15}|[eE][+-]?[0-9]{3}"#, options: .regularExpression) == nil
}

@Suite struct JSONMutationTests {
    static let seeds: [String] = [
        #"{"aps":{"alert":{"title":"Hi","body":"It is \"here\"\n"},"badge":7,"sound":"default"},"id":"abc-12"}"#,
        #"{"device_tokens":["00ff","a0B1"],"headers":{"apns-priority":10,"apns-topic":"com.ex"},"payload":{"aps":{}}}"#,
        #" [ 0 , -1.5e+3, 1E2 ,true,false,null, "é漢😀\u00e9\ud83d\ude00", [[]], {} ] "#,
        #"{"a":{"b":{"c":[1,2,{"d":"e\\f\/g"}]}},"":"","long":"0123456789abcdefghijklmnopqrstuvwxyz"}"#,
    ]
    static let interesting: [UInt8] =
        Array("{}[]\":,\\u0eE.-+ \n\ttrfn19aF".utf8) + [0, 0x1F, 0x7F, 0x80, 0xC3, 0xE2, 0xF0]

    /// A failure names the seed and the round of the text on which the scanner and Foundation disagree.
    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func `The scanner accepts the same mutated texts as Foundation`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var compared = 0
        var accepted = 0
        for round in 0..<3_000 {
            var bytes = Array(Self.seeds.randomElement(using: &random)!.utf8)
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                Self.mutate(&bytes, &random)
            }
            let found = scan(bytes)
            if let error = found.error, error.offset < 0 || error.offset > bytes.count {
                Issue.record("seed \(seed) round \(round): error at \(error.offset) of \(bytes.count)")
            }
            guard rulesAgree(bytes) else { continue }
            compared += 1
            // The scanner accepts half a surrogate pair, but Foundation does not.
            let isText = found.error == nil && found.halfSurrogate == nil
            if isText { accepted += 1 }
            if isText != foundationAccepts(bytes) {
                Issue.record("seed \(seed) round \(round): \(String(decoding: bytes, as: UTF8.self)) \(bytes)")
            }
        }
        // Enough accepted and enough rejected texts were compared.
        #expect(compared > 2_000 && accepted > 500 && compared - accepted > 500)
    }

    /// Escapes of whole and half surrogate pairs, next to each other and at every distance from a machine word's end.
    @Test(arguments: [5, 6] as [UInt64])
    func `The scanner finds half a surrogate pair exactly in the texts that Foundation rejects`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let pieces = [
            #"\ud83d"#, #"\uDE00"#, #"\ud83d\ude00"#, #"\u00e9"#, #"\n"#, #"\\"#, "x", "é", #"\uD7ff"#, #"\ue000"#,
            #"\\ud83d"#,
            String(repeating: "y", count: 14),
        ]
        var halves = 0
        for round in 0..<2_000 {
            let inside = (0..<Int.random(in: 0...9, using: &random)).map { _ in pieces.randomElement(using: &random)! }
            let text = "[\"\(inside.joined())\"\(round.isMultiple(of: 2) ? ",\"0123456789abcdefgh\"" : "")]"
            let found = scan(text)
            if let half = found.halfSurrogate {
                halves += 1
                #expect(
                    text.utf8.dropFirst(half).starts(with: Array("\\u".utf8)), "seed \(seed) round \(round): \(text)")
            }
            if found.error != nil || (found.halfSurrogate == nil) != foundationAccepts(Array(text.utf8)) {
                Issue.record("seed \(seed) round \(round): \(text)")
            }
        }
        #expect(halves > 500 && halves < 1_800)
    }

    static func mutate(_ bytes: inout [UInt8], _ random: inout SplitMix64) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        switch Int.random(in: 0..<6, using: &random) {
        case 0: bytes.insert(interesting.randomElement(using: &random)!, at: place)
        case 1: if place < bytes.count { bytes[place] = interesting.randomElement(using: &random)! }
        case 2: if place < bytes.count { bytes.remove(at: place) }
        case 3: bytes.removeLast(bytes.count - place)
        case 4:
            let end = Int.random(in: place...bytes.count, using: &random)
            bytes.insert(contentsOf: Array(bytes[place..<end]), at: Int.random(in: 0...bytes.count, using: &random))
        default: if place < bytes.count { bytes[place] = UInt8.random(in: 0...255, using: &random) }
        }
    }
}
