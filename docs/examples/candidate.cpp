// Puts an optimizer of your own to the gate: all properties, drawn cases, a shrunk counterexample.
// docs/using-the-gate.md walks through it. YourOptimizer marks the place where yours goes.
//
//     example_candidate                            all properties; exit status 0 if all hold
//     example_candidate --break                    the same with one mistake: exit status 1
//     example_candidate [--break] PROPERTY CASE    one case, as a failure prints it

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <scape/distributed/checkpoint.hpp>
#include <scape/distributed/host_backend.hpp>
#include <scape/distributed/scape.hpp>
#include <scape/problem/error.hpp>
#include <scape/properties/failure.hpp>
#include <scape/properties/implementations.hpp>
#include <scape/properties/search.hpp>

namespace {

namespace properties = scape::properties;
using scape::distributed::Communicator;

/// >>> YOURS GOES HERE <<<  One rank of it. The one that stands here is this project's own, so that the
/// example runs.
using YourOptimizer = scape::distributed::Scape;

/// A mistake that is easily made on the way in: the gradient loses 16 bits, as in bfloat16.
float truncated(float value) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff'0000U);
}

/// What the gate asks of one rank. The ranks are threads here, so static variables of yours are shared by
/// them.
class Wrapped final : public properties::Candidate {
  public:
    /// The setup has the tensors, segments with their owners, hyper-parameters, density schedule and
    /// initial parameters; all of them change from case to case. What is sent through the communicator is
    /// counted.
    Wrapped(const properties::Setup& setup, Communicator& communicator, bool breaks)
        : breaks_(breaks), communicator_(communicator),
          yours_(setup.problem, setup.ranges, setup.density,
                 scape::distributed::make_host_backend(setup.problem, setup.parameters, 1), communicator,
                 {}) {}

    /// A gradient that has to be refused must end in distributed::RefusedStep on all ranks; translate yours
    /// to it.
    void step(std::span<const float> gradient, double learning_rate) override {
        std::vector<float> mine(gradient.begin(), gradient.end());
        if (breaks_)
            for (float& value : mine)
                value = truncated(value);
        yours_.step(mine, learning_rate);
    }

    /// From a device: copy to the host here. In full length, +0 where you store nothing.
    properties::View view() override {
        const auto w = yours_.parameters();
        const auto e = yours_.residual();
        return {yours_.steps(),
                {w.begin(), w.end()},
                yours_.moment(),
                {e.begin(), e.end()},
                bytes(yours_.mask())};
    }
    std::vector<std::uint8_t> coming() override { return bytes(yours_.coming_mask()); }

    void save(const std::filesystem::path& folder) override {
        static_cast<void>(scape::distributed::save_checkpoint(yours_, communicator_, folder));
    }
    void restore(const std::filesystem::path& folder) override {
        const auto latest = scape::distributed::latest_checkpoint(folder);
        if (!latest)
            throw scape::Error(folder.string() + " holds no checkpoint");
        scape::distributed::restore_checkpoint(yours_, communicator_, *latest);
    }

  private:
    /// Bit i is (byte i/8 >> i%8) & 1.
    static std::vector<std::uint8_t> bytes(const scape::distributed::Mask& mask) {
        std::vector<std::uint8_t> all(static_cast<std::size_t>((mask.size() + 7) / 8));
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] = static_cast<std::uint8_t>(mask.words()[i / 8] >> (i % 8 * 8));
        return all;
    }

    bool breaks_;
    Communicator& communicator_;
    YourOptimizer yours_;
};

/// Properties that yours cannot be asked yet, and why: {"restart.same", "no checkpoints yet"}, ...
const std::map<std::string, std::string> left_out{};

std::string why_not(const properties::Property& property,
                    const properties::Implementation& implementation) {
    const auto found = left_out.find(property.name);
    return found == left_out.end() ? property.skipped(implementation) : found->second;
}

int run(const std::vector<std::string>& arguments) {
    const bool breaks = !arguments.empty() && arguments.front() == "--break";
    const std::vector<std::string> rest(arguments.begin() + (breaks ? 1 : 0), arguments.end());
    if (!rest.empty() && rest.size() != 2)
        throw scape::Error("usage: example_candidate [--break] [PROPERTY CASE]");
    if (!rest.empty())
        static_cast<void>(properties::find_property(rest[0])); // or an error that lists the names

    const auto implementation = properties::on_ranks(
        {"yours",
         scape::verify::LevelKind::exact, // what it claims; rel if it does not add in rank order
         scape::problem::Algorithm::scape,
         {"default"},
         [breaks](const properties::Setup& setup, Communicator& communicator) {
             return std::make_unique<Wrapped>(setup, communicator, breaks);
         }},
        scape::gate::make_thread_group(std::chrono::seconds(60)));

    int held = 0;
    int failed = 0;
    for (const properties::Property& property : properties::all_properties()) {
        if (!rest.empty() && property.name != rest[0])
            continue;
        if (const std::string why = why_not(property, *implementation); !why.empty()) {
            std::printf("SKIPPED  %-24s %s\n", property.name.c_str(), why.c_str());
            continue;
        }
        properties::SearchOptions options;
        options.cases = 100;
        properties::SearchResult result;
        if (rest.empty())
            result = search(*implementation, property, options);
        else
            result.counterexample =
                try_case(*implementation, property, properties::parse_case(rest[1]), result);

        const std::string few = too_few(property, result, options);
        if (result.counterexample)
            std::printf("FAILED   %-24s %s\n%s  to repeat it:\n$ example_candidate%s %s %s\n",
                        property.name.c_str(), property.says.c_str(),
                        failure_text(*result.counterexample).c_str(), breaks ? " --break" : "",
                        property.name.c_str(), text(result.counterexample->run).c_str());
        else
            std::printf("%s %-24s %s\n", few.empty() ? "PASSED  " : "TOO FEW ", property.name.c_str(),
                        few.c_str());
        (result.counterexample || !few.empty() ? failed : held) += 1;
    }
    std::printf("%d passed, %d failed\n", held, failed);
    return failed > 0 ? 1 : held > 0 ? 0 : 2;
}

} // namespace

int main(int count, char** values) {
    try {
        return run({values + 1, values + count});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "example_candidate: %s\n", error.what());
        return 2;
    }
}
