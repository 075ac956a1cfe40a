// One case of files under judgement.
#pragma once

#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <truestep/gate/trial.hpp>

#include "storage.hpp"

namespace truestep::properties::storage {

class Trial : public gate::TrialOf<Case> {
  public:
    Trial(const gate::Implementation& tested, const Case& judged_case)
        : TrialOf(judged_case, {}), implementation(dynamic_cast<const Implementation&>(tested)) {}

    const Implementation& implementation;

    void holds(bool right, const std::string& otherwise) { expect(right, 0, otherwise); }
    /// Expects that the call throws one line that begins with the path and has these words.
    void refused(const Path& path, const std::string& words, const std::string& what, const auto& call) {
        std::string message;
        try {
            call();
        } catch (const std::exception& error) {
            message = error.what();
        }
        const bool right = message.starts_with(path.string()) && message.find("; ") != std::string::npos &&
                           message.find('\n') == std::string::npos &&
                           message.find(words) != std::string::npos;
        expect(right, 0, [&] {
            return what + " is not refused: " + (message.empty() ? "nothing is said" : message);
        });
    }

  protected:
    gate::Finding::Size size(std::int64_t /*number*/) const override {
        return {run.bytes, static_cast<int>(run.workers), run.tensors};
    }
};

inline std::string bytes_in(const Path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void put(const Path& path, const std::string& bytes) {
    std::ofstream file(path, std::ios::binary);
    if (!(file << bytes).flush())
        throw std::runtime_error(path.string() + ": cannot be written; free some space");
}

void is_refused_after_damage(Trial& trial);
void keeps_links(Trial& trial);
void finds_checkpoints(Trial& trial);

} // namespace truestep::properties::storage
