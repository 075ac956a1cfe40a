// One case of files under judgement.
#pragma once

#include <exception>
#include <fstream>
#include <iterator>

#include <truestep/gate/trial.hpp>

#include "storage.hpp"

namespace truestep::properties::storage {

class Trial : public gate::TrialOf<Case> {
  public:
    Trial(const gate::Implementation& tested, const Case& judged_case)
        : TrialOf(judged_case, {}), implementation(dynamic_cast<const Implementation&>(tested)) {}

    const Implementation& implementation;

    void holds(bool right, const std::string& otherwise) { expect(right, 0, otherwise); }
    /// That a call ends with one line about this path, and these words in it.
    void refused(const Path& path, const std::string& words, const std::string& what, const auto& call) {
        std::string told;
        try {
            call();
        } catch (const std::exception& error) {
            told = error.what();
        }
        const bool right = told.starts_with(path.string()) && told.find("; ") != std::string::npos &&
                           told.find('\n') == std::string::npos && told.find(words) != std::string::npos;
        expect(right, 0,
               [&] { return what + (told.empty() ? " is told nothing" : " is told '" + told + "'"); });
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
    std::ofstream(path, std::ios::binary) << bytes;
}

void is_refused_after_damage(Trial& trial);
void keeps_links(Trial& trial);
void finds_checkpoints(Trial& trial);

} // namespace truestep::properties::storage
