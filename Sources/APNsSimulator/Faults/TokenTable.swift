import PushRecords

/// What a device token's own first digits ask for, so that anyone can provoke any answer without touching the server.
///
/// `fa17`, four digits that name the fault, and one that says how often: `0` always, `1` to `f` for that token's first
/// 1 to 15 requests, which are counted until the books are reset; after them it is accepted. Every fault that has a
/// name (`Fault.name`) has such digits: `code(of:)`.
struct TokenTable {
    /// A fault and for how many requests of a token it holds; 0: all.
    struct Entry: Hashable, Sendable {
        var fault: Fault
        var times: UInt8
    }

    struct Line: Sendable {
        /// Four digits, `0`-`9` and `a`-`f`.
        var code: StaticString
        var fault: Fault
        var help: String
    }

    /// The lines with a fixed code, in the order of the help. Reasons: their status, then their place on Apple's page.
    /// The reasons of the pages about broadcast begin with `c`.
    static let lines: [Line] = {
        // The vocabulary's codes 1 to 32 are the reasons of Apple's page, in its order.
        let codes: [StaticString] = [
            "4000", "4001", "4002", "4003", "4004", "4005", "4006", "4007", "4008", "4009", "400a", "400b", "400c",
            "400d", "4030", "4031", "4032", "4033", "4034", "4035", "4036", "4037", "4040", "4050", "4100", "4101",
            "4130", "4290", "4291", "5000", "5030", "5031",
        ]
        let others: [(StaticString, ReasonCode)] = [
            ("4038", .badEnvironmentKeyInToken), ("c000", .featureNotEnabled), ("c001", .missingChannelId),
            ("c002", .badChannelId), ("c003", .channelNotRegistered), ("c004", .badRequestParams),
            ("c005", .badRequestPayload), ("c006", .missingPushType), ("c007", .cannotCreateChannelConfig),
            ("c008", .topicMismatch), ("c009", .serviceUnavailableSpaced),
        ]
        let reasons = codes.enumerated().map { ($1, ReasonCode(rawValue: UInt8($0 + 1))!) } + others
        return reasons.map { code, reason in
            let answer = Answer(reason)
            return Line(code: code, fault: .answer(answer), help: "\(answer.status) \(Fault.answer(answer).name)")
        } + NamedFault.all.map { Line(code: $0.code, fault: $0.fault, help: "\($0.name): \($0.help)") }
    }()

    private static let byCode: [UInt16: Fault] = {
        var table: [UInt16: Fault] = [:]
        for line in lines { table[UInt16(line.code.description, radix: 16)!] = line.fault }
        return table
    }()

    /// The fault that a token requests, if any. The bytes are hex digits of either case.
    @inline(__always)
    static func entry(for token: UnsafeRawBufferPointer) -> Entry? {
        guard token.count >= 8 else { return nil }
        // "fa17", letters of either case: bit 5 is set in every digit and in every lower-case letter.
        let word = UInt32(bigEndian: token.loadUnaligned(as: UInt32.self))
        guard word | 0x2020_2020 == 0x6661_3137 else { return nil }
        return read(token)
    }

    @inline(never)
    private static func read(_ token: UnsafeRawBufferPointer) -> Entry? {
        var code: UInt16 = 0
        for index in 4..<8 { code = code << 4 | UInt16(hexDigit(token[index]) ?? 0) }
        let times = token.count > 8 ? hexDigit(token[8]) ?? 0 : 0
        guard let fault = fault(code: code) else { return nil }
        return Entry(fault: fault, times: times)
    }

    /// The fault that four digits request, if any.
    static func fault(code: UInt16) -> Fault? { byCode[code] ?? patterned(code) }

    /// The last three of four digits as a number in decimal, or `nil` if one of them is a letter.
    static func decimal(_ code: UInt16) -> Int? {
        let digits = [code >> 8 & 15, code >> 4 & 15, code & 15]
        guard digits.allSatisfy({ $0 < 10 }) else { return nil }
        return Int(digits[0]) * 100 + Int(digits[1]) * 10 + Int(digits[2])
    }

    /// The families: see `FaultFamily`. Those with a number: one digit, then the number in decimal.
    private static func patterned(_ code: UInt16) -> Fault? {
        let family = code >> 12
        switch family {
        case 0x2: return reason(code + 0xA000).map { .goAway(.reason($0)) }
        case 0x3: return reason(code + 0x9000).map { .goAway(.immediateReason($0)) }
        case 0x6, 0x7: return reason(code - 0x2000).map { .goAway(.immediateReason($0)) }
        case 0x8, 0x9: return reason(code - 0x4000).map { .goAway(.reason($0)) }
        default: break
        }
        guard let number = decimal(code) else { return nil }
        switch family {
        case 0x1: return .streams(UInt32(number))
        case 0xA where number > 0: return .late(.exponential(meanNs: Int64(number) * hundredthNs))
        case 0xD: return .late(number == 0 ? .none : .fixed(ns: Int64(number) * hundredthNs))
        case 0xE where (400...599).contains(number):
            return .answer(Answer(status: UInt16(number), reason: .other, body: .unknownReason))
        case 0xB where (400...599).contains(number):
            return .answer(Answer(status: UInt16(number), reason: .other, body: .missing))
        default: return nil
        }
    }

    private static let hundredthNs: Int64 = 10_000_000

    /// The reason that a code of four digits is answered with.
    private static func reason(_ code: UInt16) -> ReasonCode? {
        guard case .answer(let answer)? = byCode[code] else { return nil }
        return answer.reason
    }

    /// The four digits that request a fault. There are none if its time is not a number of whole hundredths of a second
    /// below ten seconds.
    static func code(of fault: Fault) -> String? {
        if let line = lines.first(where: { $0.fault == fault }) { return line.code.description }
        return (UInt16(0x1000)...0xEFFF).first { byCode[$0] == nil && patterned($0) == fault }
            .map { String($0, radix: 16) }
    }

    /// The table as text, for `simulate --help`.
    static func text() -> String {
        var text = """
            A device token that begins with one of these gets that answer. Digit 9 says how often: 0 always, 1 to f for
            the token's first 1 to 15 requests; the rest of the token is free (an even number of digits, at most 200).


            """
        for line in lines { text += "  fa17\(line.code)  \(line.help)\n" }
        for family in FaultFamily.all { text += "  \(family.tokens.prefix)  \(family.tokens.digits)\n" }
        text += """

            The timestamp of a 410 is 1600000000000 + the token's last nine hex digits, in milliseconds since the epoch.

            """ + gatewayText
        return text
    }
}
