import Configuration
import Delivery
import PushRecords
import Testing

@testable import Worker

/// What a refusal means and what to do, of every reason that there is a name for.
@Suite struct RefusalAdviceTests {
    private static let named = ReasonCode.allCases.filter { $0.text != nil }

    private static func app(_ edit: (inout AppSettings) -> Void = { _ in }) -> AppSettings {
        var app = AppSettings(
            name: "shop", bundleIDs: ["com.example.shop"],
            credential: .token(TokenCredential(key: .text(""), keyID: "ABC123DEFG", teamID: "TEAM123456")))
        edit(&app)
        return app
    }

    private static func advice(_ reason: ReasonCode, status: Int = 400) -> RefusalAdvice? {
        RefusalAdvice.of(reason, status: status, "com.example.shop", app())
    }

    @Test(arguments: named)
    func `Every reason has advice`(reason: ReasonCode) throws {
        let word = try #require(reason.reason)
        let text = try #require(
            RefusalAdvice.text(word, status: 400, topic: "com.example.shop", of: Self.app()), "\(word.rawValue)")
        #expect(text.count > 20 && text.last != "." && !text.contains("\n"), "\(text)")
        // It says more than the word, and is the same whatever the status.
        #expect(!text.contains(word.rawValue))
        #expect(text == RefusalAdvice.text(word, status: 503, topic: "com.example.shop", of: Self.app()))
    }

    /// What the advice is about is what the worker does.
    @Test(arguments: named)
    func `The subject is that of the verdict`(reason: ReasonCode) throws {
        let subject = try #require(Self.advice(reason)?.subject)
        switch VerdictTable().row(reason: reason, text: nil, status: 400).verdict {
        case .credentialFault: #expect(subject == .credential)
        case .unregister: #expect(subject == .device)
        case .retry: #expect(subject == .service)
        case .accept, .reject, .resend: #expect(subject != .service || reason == .idleTimeout)
        }
    }

    @Test(
        arguments: [
            (.none, 403, .credential), (.other, 403, .credential), (.other, 410, .device), (.other, 429, .service),
            (.none, 503, .service), (.none, 404, .service), (.other, 404, nil), (.other, 400, nil),
        ] as [(ReasonCode, Int, RefusalAdvice.Subject?)])
    func `Without a known reason the status says`(reason: ReasonCode, status: Int, subject: RefusalAdvice.Subject?) {
        #expect(Self.advice(reason, status: status)?.subject == subject)
    }

    /// In a result its reason is the status itself.
    @Test func `An answer that is hardly Apple s`() {
        let text = RefusalAdvice.text(Reason(rawValue: "HTTP 404"), status: 404, topic: "t", of: Self.app())
        #expect(text?.contains("proxies") == true)
        #expect(RefusalAdvice.text(Reason(rawValue: "HTTP 404"), status: 400, topic: "t", of: Self.app()) == nil)
    }

    @Test func `A token that is bad in both environments is not to be tried in the other`() {
        let once = RefusalAdvice.text(.badDeviceToken, status: 400, topic: "t", of: Self.app())
        #expect(once?.contains("(try development)") == true)
        let both = RefusalAdvice.text(.badDeviceToken, status: 400, topic: "t", of: Self.app(), isOtherTried: true)
        #expect(both?.contains("either environment") == true)
    }

    /// Its limits are its own, and so are its words (BinaryGateway, Status codes).
    @Test func `A gateway of the binary protocol`() {
        let app = Self.app {
            $0.binary = BinarySettings()
            $0.binary?.payloadLimit = 256
        }
        func text(_ word: String, _ status: Int) -> String {
            RefusalAdvice.text(Reason(rawValue: word), status: status, topic: "t", of: app) ?? ""
        }
        #expect(
            text("PayloadTooLarge", 7).contains("at most 256 bytes") && !text("PayloadTooLarge", 7).contains("4,096"))
        #expect(text("MissingDeviceToken", 2).contains("no broadcasts"))
        #expect(text("MissingTopic", 3).contains("certificate"))
        #expect(text("InvalidTokenSize", 5).contains("64 hex digits"))
        #expect(text("InvalidTopicSize", 6).contains("certificate"))
        #expect(text("ProtocolError", 128).contains("binary.format: framed"))
        for word in ["ProcessingError", "UnknownError", "GatewayStatus77"] {
            #expect(text(word, 255).contains("try again"))
        }
        #expect(RefusalAdvice.text(Reason(rawValue: "ProtocolError"), status: 128, topic: "t", of: Self.app()) == nil)
    }
}
