-- Features of Quarto that pandoc lacks: number figures, tables and sections, resolve references
-- such as @fig-goodput, and draw callouts. A reference without a target is an error. Sections of the
-- class `page-only` are on the page only: the PDF keeps their numbers.

local names = { fig = "Figure", tbl = "Table", sec = "Section", eq = "Equation" }
local counts = { fig = 0, tbl = 0, eq = 0 }
local numbers = {}
local section = { 0, 0, 0, 0, 0, 0 }
-- Level of the current section that the PDF leaves out, and the labels of what it leaves out.
local omitted_level = nil
local omitted = {}
local omitted_ids = pandoc.List({})

local function kind_of(id)
  return id:match("^(%a+)%-")
end

local function count(id)
  local kind = kind_of(id)
  if counts[kind] == nil then return nil end
  counts[kind] = counts[kind] + 1
  numbers[id] = tostring(counts[kind])
  if omitted_level then
    omitted[id] = true
    omitted_ids:insert(id)
  end
  return names[kind] .. " " .. numbers[id] .. ": "
end

-- pandoc's typst writer prints "Figure 1:" itself; HTML does not.
local function label_caption(caption, text)
  if FORMAT:match("html") and caption.long[1] then
    caption.long[1].content:insert(1, pandoc.Strong(text))
  end
  return caption
end

local numbered

local function number_blocks(block)
  if block.t == "Div" and block.classes:includes("filterable") then
    block.content = numbered(block.content)
    return block
  end
  if block.t == "Header" then
    if not block.classes:includes("unnumbered") then
      section[block.level] = section[block.level] + 1
      for deeper = block.level + 1, 6 do section[deeper] = 0 end
      local parts = {}
      for level = 1, block.level do parts[level] = tostring(section[level]) end
      if block.identifier:match("^sec%-") then
        numbers[block.identifier] = table.concat(parts, ".")
      end
    end
    return nil
  end
  if block.t == "Figure" and block.identifier:match("^fig%-") then
    block.caption = label_caption(block.caption, count(block.identifier))
    return block
  end
  if block.t == "Div" and block.identifier:match("^tbl%-") then
    local text = count(block.identifier)
    local found = nil
    block.content = block.content:walk({
      Table = function(tbl)
        tbl.caption = label_caption(tbl.caption, text)
        tbl.identifier = block.identifier
        found = tbl
        return tbl
      end,
    })
    if not found then error("losslab: " .. block.identifier .. " must hold a table, found none") end
    -- pandoc's typst writer turns the table into a captioned figure itself.
    if FORMAT:match("typst") then return found end
    block.identifier = ""
    return block
  end
  if block.t == "Div" then
    for _, class in ipairs(block.classes) do
      local style = class:match("^callout%-(%a+)$")
      if style then
        local first = block.content[1]
        local title = style:sub(1, 1):upper() .. style:sub(2)
        if first and first.t == "Header" then
          title = pandoc.utils.stringify(first)
          block.content:remove(1)
        end
        if FORMAT:match("typst") then
          local result = pandoc.Blocks({ pandoc.RawBlock("typst", "#callout(title: [" .. title .. "], body: [") })
          result:extend(block.content)
          result:insert(pandoc.RawBlock("typst", "])"))
          return result
        end
        block.classes = { "callout", "callout-" .. style }
        block.content:insert(1, pandoc.Para({ pandoc.Strong(title) }))
        return block
      end
    end
  end
end

local function resolve(cite)
  local id = cite.citations[1].id
  local kind = kind_of(id)
  if names[kind] == nil then return nil end
  if not numbers[id] then
    error("losslab: the cross-reference @" .. id .. " has no label: correct it, or label its target")
  end
  local text = names[kind] .. "\u{00A0}" .. numbers[id]
  if omitted[id] then return pandoc.Str(text) end
  return pandoc.Link(text, "#" .. id)
end

-- List the numbers of a kind that the PDF leaves out: "6 to 50, 54 and 55".
local function omitted_numbers(kind)
  local ranges = pandoc.List({})
  for _, id in ipairs(omitted_ids) do
    if kind_of(id) == kind then
      local number = tonumber(numbers[id])
      local last = ranges[#ranges]
      if last and number == last[2] + 1 then last[2] = number else ranges:insert({ number, number }) end
    end
  end
  local words = ranges:map(function(range)
    if range[1] == range[2] then return tostring(range[1]) end
    return range[1] .. (range[2] == range[1] + 1 and " and " or " to ") .. range[2]
  end)
  if #words < 2 then return table.concat(words) end
  return table.concat(words, ", ", 1, #words - 1) .. " and " .. words[#words]
end

-- State what only the page has.
local function note_omitted()
  local parts = pandoc.List({})
  for _, kind in ipairs({ "fig", "tbl" }) do
    local listed = omitted_numbers(kind)
    if listed ~= "" then
      local plural = listed:find(" ") and "s " or " "
      parts:insert((#parts == 0 and names[kind] or names[kind]:lower()) .. plural .. listed)
    end
  end
  if #parts == 0 then return pandoc.Blocks({}) end
  return pandoc.Blocks({ pandoc.Para({
    pandoc.Str(table.concat(parts, " and ") .. " are in "), pandoc.Code("report.html"),
    pandoc.Str(", beside this file."),
  }) })
end

numbered = function(blocks)
  local result = pandoc.Blocks({})
  for _, block in ipairs(blocks) do
    local leaves_out = false
    if block.t == "Header" and FORMAT:match("typst") then
      if omitted_level and block.level <= omitted_level then
        omitted_level = nil
        -- typst numbers what it prints, so it must count what is left out.
        result:insert(pandoc.RawBlock("typst",
          "#counter(figure.where(kind: image)).update(" .. counts.fig .. ")\n" ..
          "#counter(figure.where(kind: table)).update(" .. counts.tbl .. ")"))
      end
      leaves_out = omitted_level == nil and block.classes:includes("page-only")
    end
    local new = number_blocks(block)
    if omitted_level then
      if block.t == "Header" and block.identifier ~= "" then omitted[block.identifier] = true end
    elseif new == nil then
      result:insert(block)
    elseif pandoc.utils.type(new) == "Blocks" then
      result:extend(new)
    else
      result:insert(new)
    end
    if leaves_out then
      omitted_level = block.level
      result:insert(pandoc.Para({ pandoc.Str("This part is in "), pandoc.Code("report.html"), pandoc.Str(".") }))
    end
  end
  return result
end

function Pandoc(doc)
  doc.blocks = numbered(doc.blocks):walk({
    Cite = resolve,
    Div = function(div) if div.identifier == "only-on-the-page" then return note_omitted() end end,
  })
  return doc
end
