import PushRecords

/// The faults that a client can request by the first digits of the device token.
///
/// Such a token begins with `fa17`, and the next four hex digits select the fault. The ninth digit limits the fault:
/// `0` applies it to every request for the token, `1` to `f` only to the first 1 to 15 requests for the token since the
/// simulator's counts were reset.
enum TokenTable {
    /// The faults with a fixed four-digit code, in the order of the help. A reason's code consists of the HTTP status
    /// and the reason's index among the reasons with this status on Apple's page. The codes of reasons from the
    /// broadcast pages begin with `c`.
    static let lines: [(code: StaticString, fault: Fault, help: String)] = {
        // The codes of reasons 1 to 32, in the order of Apple's page.
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
        return reasons.map { ($0, .answer(Answer($1)), "\(Answer($1).status) \($1.name)") }
            + Fault.named.map { ($0.code, $0.fault, "\($0.name): \($0.help)") }
    }()

    private static let byCode: [UInt16: Fault] = {
        var table: [UInt16: Fault] = [:]
        for line in lines { table[UInt16(line.code.description, radix: 16)!] = line.fault }
        return table
    }()

    /// Returns the four digits that follow `fa17` in a token, and the number of requests to which the fault applies (0
    /// means all). Returns `nil` if the token does not begin with `fa17`.
    @inline(__always)
    static func digits(of token: UnsafeRawBufferPointer) -> (code: UInt16, times: UInt8)? {
        guard token.count >= 4, token.number16(at: 0) == 0xFA17 else { return nil }
        return (token.number16(at: 2), token.count > 4 ? token[4] >> 4 : 0)
    }

    /// Returns the fault that a token requests, if any, and the number of requests to which the fault applies (0 means
    /// all).
    @inline(__always)
    static func entry(for token: UnsafeRawBufferPointer) -> (fault: Fault, times: UInt8)? {
        guard let (code, times) = digits(of: token), let fault = fault(code: code) else { return nil }
        return (fault, times)
    }

    /// Returns the fault of a four-digit code, if one exists.
    static func fault(code: UInt16) -> Fault? { byCode[code] ?? goAway(code) ?? patterned(code) }

    /// Returns the GOAWAY fault of a code, if one exists. The code differs only in the first digit from the code of an
    /// error answer with the same reason.
    private static func goAway(_ code: UInt16) -> Fault? {
        let digits: [UInt16: (ofReason: UInt16, isImmediate: Bool)] = [
            0x8: (0x4, false), 0x9: (0x5, false), 0x2: (0xC, false), 0x6: (0x4, true), 0x7: (0x5, true),
            0x3: (0xC, true),
        ]
        guard let digit = digits[code >> 12], case .answer(let answer)? = byCode[digit.ofReason << 12 | code & 0xFFF]
        else { return nil }
        return .goAway(digit.isImmediate ? .immediate(answer.reason) : .graceful(answer.reason))
    }

    /// Parses the last three of a code's four digits as a decimal number.
    static func decimal(_ code: UInt16) -> Int? {
        let digits = [code >> 8 & 15, code >> 4 & 15, code & 15]
        guard digits.allSatisfy({ $0 < 10 }) else { return nil }
        return Int(digits[0]) * 100 + Int(digits[1]) * 10 + Int(digits[2])
    }

    /// Returns the fault of a code that consists of one digit for the `FaultFamily` and a decimal number.
    private static func patterned(_ code: UInt16) -> Fault? {
        guard let number = decimal(code) else { return nil }
        let digit = code >> 12
        return FaultFamily.all.first { $0.tokens?.digit == digit }?.read(digit == 0xD ? "\(number)0ms" : "\(number)")
    }

    /// The table as text, for `simulate --help`.
    static func text() -> String {
        var text = """
            A device token that begins with one of these codes gets the listed answer. Digit 9 of the token
            limits the answer: 0 for every request, 1 to f for the token's first 1 to 15 requests. The other digits are
            arbitrary (an even number of digits in total, up to 200).


            """
        for line in lines { text += "  fa17\(line.code)  \(line.help)\n" }
        text += """
              fa178NNN, fa179NNN, fa172NNN  like goaway, with the reason of 4NNN, 5NNN, cNNN (fa178008: IdleTimeout)
              fa176NNN, fa177NNN, fa173NNN  like goaway-now, with the reason of 4NNN, 5NNN, cNNN (fa177031: Shutdown)

            """
        for case let tokens? in FaultFamily.all.map(\.tokens) {
            text += "  fa17\(String(tokens.digit, radix: 16))NNN  \(tokens.help)\n"
        }
        text += """

            The timestamp of a 410 is 1600000000000 + the token's last nine hex digits, in milliseconds since the epoch.

            """ + gatewayText
        return text
    }
}
