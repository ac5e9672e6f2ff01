import Testing

@testable import Kafka

struct TokenCommandTests {
    @Test func `The command prints a token response, and other members are ignored`() throws {
        let text = #"printf '{"token_type":"Bearer","expires_in":900,"access_token":"%s","more":{}}' "$(echo a.b)""#
        #expect(try TokenCommand(text: text).run() == TokenCommand.Token(value: "a.b", lifetime: 900))
    }

    /// The output is a secret, even if it is not a token response.
    @Test(arguments: [
        ("echo secret", "printed no JSON object with access_token"),
        (#"echo '{"access_token":"secret"}'"#, "and expires_in (a number of seconds above 0)"),
        (#"echo '{"access_token":"secret","expires_in":0}'"#, "printed no JSON object"),
        (#"echo '{"access_token":"secret","expires_in":"900"}'"#, "printed no JSON object"),
        (#"printf '%s' '{"access_token":"secret\u0001","expires_in":900}'"#, "printed no JSON object"),
        ("echo secret; exit 3", "exited with 3"), ("no-such-command 2>/dev/null", "exited with 127"),
        ("yes secret | head -c 65537", "printed more than 65536 bytes"),
        ("kill -KILL $$", "was killed"), ("kill -SEGV $$", "ended with signal 11"),
        ("sleep 600", "did not end within 1 s"),
    ])
    func `A command without a token fails with a reason that does not show its output`(
        text: String, words: String
    ) throws {
        let failure = #expect(throws: CommandFailure.self) { try TokenCommand(text: text, limit: 1).run() }
        #expect(failure?.description.contains(words) == true, "\(String(describing: failure))")
        #expect(failure?.description.contains("secret") == false)
    }
}
